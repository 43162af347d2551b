#include "agent/context.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace ptxbench::agent {
namespace {

constexpr std::array<std::string_view, 3> kNames = {"full", "latest-pair", "single-user"};

/// A fence longer than any run of backticks in the text.
std::string fence_around(std::string_view text) {
  std::size_t longest = 0, run = 0;
  for (const char c : text) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  return std::string(std::max<std::size_t>(3, longest + 1), '`');
}

}  // namespace

std::string_view to_string(ContextPolicy policy) { return kNames[static_cast<std::size_t>(policy)]; }

Result<ContextPolicy> parse_context_policy(std::string_view text) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == text) return static_cast<ContextPolicy>(i);
  }
  return input_error("'{}' is no context policy{}: full, latest-pair or single-user", text,
                     base::did_you_mean(text, kNames));
}

std::vector<models::Message> context_of(const Trajectory& trajectory, ContextPolicy policy) {
  using models::Role;
  std::vector<models::Message> messages = {{Role::system, trajectory.system_message},
                                           {Role::user, trajectory.task_message}};
  if (trajectory.turns.empty()) return messages;
  if (policy == ContextPolicy::single_user) {
    const Turn& last = trajectory.turns.back();
    // The answer's chain of thought and prose are worth nothing here; its code is what the feedback is about.
    const std::string& shown = last.source ? *last.source : last.answer;
    const std::string fence = fence_around(shown);
    const std::string_view code = language_of(trajectory) == candidate::Language::triton ? "python" : "cpp";
    messages.back().content +=
        fmt::format("\nYour latest answer was:\n\n{}{}\n{}{}{}\n\nIt was judged:\n\n{}", fence, last.source ? code : "",
                    shown, shown.ends_with('\n') ? "" : "\n", fence, last.feedback);
    return messages;
  }
  const std::size_t first = policy == ContextPolicy::full ? 0 : trajectory.turns.size() - 1;
  for (std::size_t i = first; i < trajectory.turns.size(); ++i) {
    messages.push_back({Role::assistant, trajectory.turns[i].answer});
    messages.push_back({Role::user, trajectory.turns[i].feedback});
  }
  return messages;
}

}  // namespace ptxbench::agent
