#include "service/task.h"

#include <sys/random.h>

#include <array>
#include <chrono>
#include <span>
#include <stdexcept>

namespace ptxbench::service {
namespace {

constexpr std::array<std::string_view, 4> kKinds{"evaluate", "sanitize", "debug", "profile"};
constexpr std::array<std::string_view, 4> kStatuses{"pending", "running", "completed", "failed"};
constexpr std::array<std::string_view, 2> kLanes{"cpu", "gpu"};
constexpr std::array<std::string_view, 6> kUnitStates{"waiting", "pending", "running", "done", "failed", "cancelled"};

template <class Enum, std::size_t N>
std::optional<Enum> find(const std::array<std::string_view, N>& names, std::string_view text) {
  for (std::size_t i = 0; i < N; ++i) {
    if (names[i] == text) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string_view to_string(TaskKind kind) { return kKinds[static_cast<std::size_t>(kind)]; }
std::optional<TaskKind> parse_task_kind(std::string_view text) { return find<TaskKind>(kKinds, text); }

std::string_view to_string(TaskStatus status) { return kStatuses[static_cast<std::size_t>(status)]; }
std::optional<TaskStatus> parse_task_status(std::string_view text) { return find<TaskStatus>(kStatuses, text); }

std::string_view to_string(Lane lane) { return kLanes[static_cast<std::size_t>(lane)]; }
std::optional<Lane> parse_lane(std::string_view text) { return find<Lane>(kLanes, text); }

std::string_view to_string(UnitState state) { return kUnitStates[static_cast<std::size_t>(state)]; }
std::optional<UnitState> parse_unit_state(std::string_view text) { return find<UnitState>(kUnitStates, text); }

std::string new_task_id() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw std::runtime_error("getrandom failed");
  }
  std::string id;
  for (const unsigned char byte : bytes) id += fmt::format("{:02x}", byte);
  return id;
}

double unix_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace ptxbench::service
