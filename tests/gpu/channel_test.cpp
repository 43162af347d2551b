#include "gpu/channel.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gpu/reports.h"

namespace ptxbench::gpu {
namespace {

using namespace std::chrono_literals;

std::pair<Channel, Channel> ends() {
  auto made = Channel::make();
  EXPECT_TRUE(made.has_value());
  return std::move(*made);
}

TEST(Channel, CarriesObjectsAndDescriptors) {
  auto [left, right] = ends();
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  const cuda_shim::OwnedFd in(pipe_ends[0]), out(pipe_ends[1]);
  ASSERT_TRUE(left.send({{"op", "x"}, {"n", 7}}, {out.get()}).has_value());
  auto message = right.receive(1s);
  ASSERT_TRUE(message && *message);
  EXPECT_EQ((*message)->json.at("n"), 7);
  ASSERT_EQ((*message)->descriptors.size(), 1u);
  ASSERT_EQ(::write((*message)->descriptors[0].get(), "y", 1), 1);
  char got = 0;
  ASSERT_EQ(::read(in.get(), &got, 1), 1);
  EXPECT_EQ(got, 'y');
}

TEST(Channel, LargeMessagesArriveWhole) {
  auto [left, right] = ends();
  const std::string text(100'000, 'a');
  ASSERT_TRUE(left.send({{"text", text}}).has_value());
  auto message = right.receive(1s);
  ASSERT_TRUE(message && *message);
  EXPECT_EQ((*message)->json.at("text"), text);
  EXPECT_FALSE(left.send({{"text", std::string(Channel::kMaxMessage, 'a')}}).has_value());
}

TEST(Channel, WaitsNoLongerThanTold) {
  auto [left, right] = ends();
  const auto message = right.receive(20ms);
  ASSERT_TRUE(message.has_value());
  EXPECT_FALSE(message->has_value());
}

TEST(Channel, TheEndOfTheOtherSideIsAnError) {
  auto [left, right] = ends();
  left.close();
  EXPECT_FALSE(right.receive(1s).has_value());
  EXPECT_FALSE(right.send({{"op", "x"}}).has_value());
}

TEST(Channel, NonsenseIsAnError) {
  auto [left, right] = ends();
  const char text[] = "{\"op\": ";
  ASSERT_EQ(::send(left.fd(), text, sizeof text - 1, 0), static_cast<ssize_t>(sizeof text - 1));
  EXPECT_FALSE(right.receive(1s).has_value());
}

TEST(Reports, SurviveTheWay) {
  cuda_shim::ShimReport report;
  report.launches = 3;
  report.kernel_seconds = 0.5;
  report.unsupported = {"cudaGraphLaunch"};
  report.diagnostics.push_back({"launch.grid", "too big", "make it smaller", "k", "cudaLaunchKernel (<<<>>>)", true});
  report.fault.emplace();
  report.fault->rule = "memory.illegal-address";
  report.fault->message = "m";
  report.fault->place.kernel = "k";
  const auto back = shim_report_from(to_json(report));
  EXPECT_EQ(back.launches, 3u);
  EXPECT_EQ(back.unsupported, report.unsupported);
  ASSERT_EQ(back.diagnostics.size(), 1u);
  EXPECT_EQ(back.diagnostics[0].remedy, "make it smaller");
  EXPECT_TRUE(back.diagnostics[0].note);
  ASSERT_TRUE(back.fault.has_value());
  EXPECT_EQ(back.fault->rule, "memory.illegal-address");
  EXPECT_EQ(back.fault->place.kernel, "k");

  cuda_shim::GuardedBackend::Observed observed;
  observed.launches = 2;
  observed.written_by_host = {"C"};
  observed.host_bytes = 99;
  const auto seen = observed_from(to_json(observed));
  EXPECT_EQ(seen.launches, 2u);
  EXPECT_EQ(seen.written_by_host, observed.written_by_host);
  EXPECT_EQ(seen.host_bytes, 99u);
}

}  // namespace
}  // namespace ptxbench::gpu
