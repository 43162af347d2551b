#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "timeline/record.h"

namespace ptxbench::timeline {

struct RecorderOptions {
  /// Clusters to record of each launch, by their linear index in the grid.
  std::vector<std::uint32_t> clusters{0};
  /// Steps, operations and gates of a cluster, and of all that is recorded together; what follows is left out, and the
  /// record says so.
  std::size_t most_of_cluster = 300'000, most_of_all = 1'500'000;
  std::size_t launches = 64;  ///< the first ones of a run
};

/// Records launches for a timeline. Give it to a device as its observer, then attach() that device, and add() the
/// report of each launch once it has returned.
class Recorder final : public emulator::Observer {
 public:
  explicit Recorder(RecorderOptions options = {});
  ~Recorder() override;
  void attach(const emulator::Device& device) { device_ = &device; }
  void add(const emulator::LaunchReport& report);
  std::vector<LaunchRecord> take();
  /// Forgets everything: the run begins again.
  void clear();
  /// The cluster in which a launch faulted, if that was not among those recorded: a run that records it as well shows
  /// more.
  std::optional<std::uint32_t> missed_fault() const { return missed_fault_; }
  /// Launches beyond RecorderOptions::launches.
  std::uint64_t launches_left_out() const { return left_out_; }

  bool serial() const override { return false; }
  void on_launch_begin(const emulator::LaunchEvent& event) override;
  void on_launch_end(const emulator::LaunchEvent& event) override;
  void on_access(const emulator::AccessEvent& event) override;
  void on_barrier(const emulator::BarrierEvent& event) override;
  void on_mbarrier(const emulator::MbarrierEvent& event) override;
  void on_async_issue(const emulator::AsyncIssueEvent& event) override;
  void on_group_commit(const emulator::Agent& agent, emulator::Site site, emulator::Completion kind,
                       std::uint64_t group) override;
  void on_group_wait(const emulator::GroupWaitEvent& event) override;
  void on_exit(const emulator::Agent& agent, emulator::Site site) override;

 private:
  struct Running;
  struct WarpState;
  /// Null: the launch or the rest of the cluster is not recorded.
  Running* running_of(const emulator::Agent& agent);
  bool wanted(std::uint32_t cluster) const;
  static WarpState& warp_of(Running& running, const emulator::Agent& agent);
  std::uint32_t rest_of_block(Running& running, emulator::Site site) const;
  /// Closes the warp's segment at an event and starts the next one.
  Segment segment(Running& running, WarpState& warp, const emulator::Agent& agent, emulator::Site site);
  void step(Running& running, const emulator::Agent& agent, emulator::Site site, Step::Kind kind, std::uint32_t target,
            bool reads_only = false);
  void bound(Running& running);
  /// What the warps were doing when the launch ended.
  static void close(Running& running);

  RecorderOptions options_;
  const emulator::Device* device_ = nullptr;
  std::vector<LaunchRecord> launches_;
  std::uint64_t number_ = 0, left_out_ = 0;
  bool recording_ = false;
  emulator::LaunchEvent current_;
  std::uint32_t threads_per_cluster_ = 0;
  std::mutex mutex_;
  std::unordered_map<std::uint32_t, std::unique_ptr<Running>> running_;
  std::vector<ClusterRecord> kept_;
  std::atomic<std::size_t> recorded_{0};  ///< of most_of_all
  std::optional<std::uint32_t> missed_fault_;
};

/// A device whose launches are recorded.
class Recording {
 public:
  /// `device.observer` is the recorder's.
  static Result<std::unique_ptr<Recording>> start(emulator::DeviceOptions device, RecorderOptions options);
  emulator::Device& device() { return *device_; }
  Recorder& recorder() { return recorder_; }

 private:
  explicit Recording(RecorderOptions options) : recorder_(std::move(options)) {}
  Recorder recorder_;
  std::unique_ptr<emulator::Device> device_;
};

}  // namespace ptxbench::timeline
