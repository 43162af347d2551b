#include "launch/prepared_launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "emulator/tensor/tensor_map.h"

namespace ptxbench::launch {
namespace {

using ::testing::HasSubstr;

/// Adds `scale` times each of 64 elements of p0 into p1.
constexpr const char* kScale = R"(.version 9.0
.target sm_90a
.address_size 64
.visible .entry scale(.param .u64 p0, .param .u64 p1, .param .f32 p2)
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<8>;
  .reg .f32 %f<8>;
  ld.param.u64 %rd0, [p0];
  ld.param.u64 %rd1, [p1];
  ld.param.f32 %f0, [p2];
  mov.u32 %r0, %tid.x;
  mul.wide.u32 %rd2, %r0, 4;
  add.u64 %rd0, %rd0, %rd2;
  add.u64 %rd1, %rd1, %rd2;
  ld.global.f32 %f1, [%rd0];
  ld.global.f32 %f2, [%rd1];
  fma.rn.f32 %f2, %f1, %f0, %f2;
  st.global.f32 [%rd1], %f2;
  ret;
}
)";

/// Two entries without parameters, and one that takes a tensor map and an address.
constexpr const char* kSeveral = R"(.version 9.0
.target sm_90a
.address_size 64
.visible .entry first() { ret; }
.visible .entry second(.param .align 64 .b8 map[128], .param .u64 p) { ret; }
)";

std::string scale_description(const std::string& expect, const std::string& scale = "1.0") {
  return "block = 64\n[[argument]]\nname = \"in\"\ntype = \"f32\"\nshape = [64]\nfill = \"index\"\n"
         "[[argument]]\nname = \"out\"\ntype = \"f32\"\nshape = [64]\nfill = \"zero\"\noutput = true\nexpect = \"" +
         expect + "\"\n[[argument]]\nname = \"scale\"\ntype = \"f32\"\nvalue = " + scale + "\n";
}

class PreparedLaunchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    emulator::DeviceOptions options;
    options.threads = 1;
    device_ = std::move(*emulator::Device::create(std::move(options)));
  }
  Result<PreparedLaunch> prepare(const std::string& ptx, const std::string& text) {
    const auto module = device_->load_ptx(ptx, "test.ptx");
    EXPECT_TRUE(module) << module.error().message;
    auto description = parse(text, "a.toml");
    if (!description) return tl::unexpected(description.error());
    return PreparedLaunch::create(*device_, *module, *description);
  }
  std::string refusal(const std::string& ptx, const std::string& text) {
    const auto prepared = prepare(ptx, text);
    return prepared ? "accepted" : prepared.error().message;
  }
  std::unique_ptr<emulator::Device> device_;
};

TEST_F(PreparedLaunchTest, RunsAndChecks) {
  auto prepared = prepare(kScale, scale_description("argument:in"));
  ASSERT_TRUE(prepared) << prepared.error().message;
  ASSERT_EQ(prepared->ranges().size(), 2u);
  EXPECT_EQ(prepared->ranges()[1].name, "out");
  EXPECT_EQ(prepared->ranges()[1].bytes, 256u);
  auto report = device_->launch(prepared->request());
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_FALSE(report->fault) << report->fault->message;
  auto mismatches = prepared->check_outputs();
  ASSERT_TRUE(mismatches);
  EXPECT_TRUE(mismatches->empty()) << mismatches->front().text();
}

TEST_F(PreparedLaunchTest, NamesTheFirstWrongElement) {
  auto prepared = prepare(kScale, scale_description("index", "2.0"));
  ASSERT_TRUE(prepared) << prepared.error().message;
  ASSERT_TRUE(device_->launch(prepared->request()));
  const auto mismatches = prepared->check_outputs();
  ASSERT_TRUE(mismatches);
  ASSERT_EQ(mismatches->size(), 1u);
  EXPECT_EQ(mismatches->front().text(),
            "argument 'out': 63 of 64 elements are wrong, the first at index 1: expected 1, got 2");
}

TEST_F(PreparedLaunchTest, FreesItsMemory) {
  const uint64_t before = device_->memory().used();
  {
    auto prepared = prepare(kScale, scale_description("index"));
    ASSERT_TRUE(prepared);
    const PreparedLaunch moved = std::move(*prepared);
    EXPECT_EQ(device_->memory().used(), before + 512);
  }
  EXPECT_EQ(device_->memory().used(), before);
}

TEST_F(PreparedLaunchTest, FreedMemoryIsStale) {
  std::string text = scale_description("index");
  text.insert(text.find("fill = \"index\""), "freed = true\n");
  auto prepared = prepare(kScale, text);
  ASSERT_TRUE(prepared) << prepared.error().message;
  const auto report = device_->launch(prepared->request());
  ASSERT_TRUE(report);
  ASSERT_TRUE(report->fault);
  EXPECT_EQ(report->fault->rule, "memory.use-after-free");
}

TEST_F(PreparedLaunchTest, EncodesTensorMaps) {
  const std::string text =
      "kernel = \"second\"\n[[argument]]\nname = \"map\"\ntensor_map = \"in\"\nbox = [8, 4]\nswizzle = 32\n"
      "[[argument]]\nname = \"in\"\ntype = \"f32\"\nshape = [6, 8]\n";
  auto prepared = prepare(kSeveral, text);
  ASSERT_TRUE(prepared) << prepared.error().message;
  const auto map = emulator::read_tensor_map(prepared->request().parameters.data());
  ASSERT_TRUE(map);
  EXPECT_EQ(map->global_address, prepared->ranges()[0].address);
  EXPECT_EQ(map->global_dims[0], 8u);
  EXPECT_EQ(map->global_dims[1], 6u);
  EXPECT_EQ(map->global_strides[0], 32u);
  EXPECT_EQ(map->box_dims[1], 4u);
  EXPECT_EQ(map->swizzle, emulator::TensorSwizzle::bytes32);
}

TEST_F(PreparedLaunchTest, RefusesWhatTheKernelDoesNotTake) {
  EXPECT_EQ(refusal(kScale, "kernel = \"scala\"\n"),
            "a.toml:1: the module has no kernel 'scala'; did you mean 'scale'?; it has scale");
  EXPECT_THAT(refusal(kSeveral, ""), HasSubstr("the module has 2 kernels; say which with kernel = \"NAME\""));
  EXPECT_THAT(refusal(kScale, ""), HasSubstr("has 3 parameters (of 8, 8, 4 bytes), the description 0 arguments"));
  std::string text = scale_description("index");
  text.replace(text.rfind("f32"), 3, "f64");
  EXPECT_THAT(
      refusal(kScale, text),
      HasSubstr("a.toml:14: argument 'scale' is a f64 (8 bytes), but parameter 2 of kernel 'scale' (p2) has 4"));
  EXPECT_THAT(refusal(kSeveral,
                      "kernel = \"second\"\n[[argument]]\nname = \"a\"\ntype = \"u8\"\nshape = 16\n"
                      "[[argument]]\nname = \"b\"\ntype = \"u8\"\nshape = 16\n"),
              HasSubstr("has 128 bytes; pass a tensor map there"));
}

TEST_F(PreparedLaunchTest, RefusesMapsThatCannotBeEncoded) {
  const auto with = [&](const std::string& map) {
    return refusal(kSeveral, "kernel = \"second\"\n[[argument]]\nname = \"map\"\ntensor_map = \"in\"\n" + map +
                                 "[[argument]]\nname = \"in\"\ntype = \"f32\"\nshape = [6, 8]\n");
  };
  EXPECT_THAT(with("box = [3, 1]\n"), HasSubstr("a.toml:2: tensor map 'map': boxDim[0] is 3"));
  EXPECT_THAT(with("box = [4, 1]\nsize = [8, 7]\n"), HasSubstr("describes more bytes than the 192"));
  EXPECT_THAT(with("box = [4, 1]\nstride = [48]\n"), HasSubstr("describes more bytes than the 192"));
  EXPECT_THAT(with("box = [4, 1]\nsize = [1099511627776, 1099511627776]\n"), HasSubstr("describes more bytes"));
  EXPECT_EQ(with("box = [4, 1]\nsize = [4, 3]\nstride = [80]\n"), "accepted") << "the last row needs no padding";
}

}  // namespace
}  // namespace ptxbench::launch
