// The plan is read back as the launcher reads it.

#include "triton/package.h"

#include <gtest/gtest.h>

#include <cstring>

#include "triton/plan.h"

namespace ptxbench::triton {
namespace {

template <class T>
T at(const std::string& bytes, std::uint64_t offset) {
  T value;
  EXPECT_LE(offset + sizeof value, bytes.size());
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

TEST(Plan, HoldsTheCall) {
  CallArgument x, n, y;
  x.name = "x";
  x.dtype = problem::Dtype::bfloat16;
  x.shape = {4, 8};
  n.scalar = true;
  n.dtype = problem::Dtype::int32;
  n.integer = -3;
  y.shape = {4};
  Record record;
  record.kernels = {{"first", "", 4, 100, 1, true}, {"second", "", 8, 200, 2, true}};
  Step launch;
  launch.kernel = 1;
  launch.grid = {5, 6, 7};
  Parameter pointer;
  pointer.kind = Parameter::Kind::pointer;
  pointer.buffer = 1;
  pointer.offset = 8;
  Parameter map;
  map.kind = Parameter::Kind::tensor_map;
  map.shape = {4, 8};
  map.strides = {16, 2};
  map.box = {2, 8};
  launch.parameters = {pointer, map};
  record.calls = {{{64, 16, 1024}, {launch}}};
  const std::string bytes = write_plan(record, {"first", "second__2"}, {{x, n, y}}, std::string(64, 'd'));

  const auto header = at<plan::Header>(bytes, 0);
  EXPECT_EQ(std::memcmp(header.magic, plan::kMagic, sizeof header.magic), 0);
  EXPECT_EQ(header.kernels, 2U);
  const auto kernel = at<plan::Kernel>(bytes, header.kernel_table + sizeof(plan::Kernel));
  EXPECT_STREQ(bytes.data() + kernel.name, "second__2");
  EXPECT_EQ(kernel.threads, 256U);
  const auto call = at<plan::Call>(bytes, header.call_table);
  ASSERT_EQ(call.arguments, 3U);
  const auto first = at<plan::Argument>(bytes, call.argument_table);
  EXPECT_EQ(first.code, 4);  // DLPack's bfloat
  EXPECT_EQ(first.bits, 16);
  EXPECT_EQ(first.shape[1], 8);
  const auto number = at<plan::Argument>(bytes, call.argument_table + sizeof(plan::Argument));
  EXPECT_EQ(number.kind, plan::ArgumentKind::integer);
  EXPECT_EQ(static_cast<std::int64_t>(number.value), -3);
  ASSERT_EQ(call.buffers, 3U);
  // The second tensor is the third argument; the last buffer is scratch.
  EXPECT_EQ(at<plan::Buffer>(bytes, call.buffer_table + sizeof(plan::Buffer)).argument, 2);
  EXPECT_EQ(at<plan::Buffer>(bytes, call.buffer_table + 2 * sizeof(plan::Buffer)).argument, plan::kScratch);
  const auto step = at<plan::Step>(bytes, call.step_table);
  EXPECT_EQ(step.grid[2], 7U);
  // Two of its own, and the two pointers to scratch that every kernel of Triton's has.
  ASSERT_EQ(step.parameters, 4U);
  const auto second = at<plan::Parameter>(bytes, step.parameter_table + sizeof(plan::Parameter));
  EXPECT_EQ(second.rank, 2U);
  EXPECT_EQ(second.shape[0], 8U);  // innermost first
  EXPECT_EQ(second.strides[1], 16U);
  EXPECT_EQ(second.box[1], 2U);
  EXPECT_EQ(at<plan::Parameter>(bytes, step.parameter_table + 3 * sizeof(plan::Parameter)).kind,
            plan::ParameterKind::null);
}

}  // namespace
}  // namespace ptxbench::triton
