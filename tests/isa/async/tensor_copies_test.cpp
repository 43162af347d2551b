#include "kernel_fixture.h"

#include <array>

#include "emulator/tensor/tensor_map.h"

namespace ptxbench::emulator {
namespace {

using testing::HasSubstr;

class TensorCopiesTest : public KernelTest {
 protected:
  struct MapSpec {
    TensorDataType type = TensorDataType::u16;
    std::vector<uint64_t> dims;
    std::vector<uint64_t> strides;  ///< bytes, rank - 1
    std::vector<uint32_t> box;
    TensorSwizzle swizzle = TensorSwizzle::none;
  };
  static std::array<std::byte, 128> encode(const MapSpec& spec, uint64_t address) {
    alignas(64) std::array<std::byte, 128> bytes{};
    const std::vector<uint32_t> ones(spec.dims.size(), 1);
    const auto done =
        encode_tiled(bytes.data(), static_cast<uint32_t>(spec.type), static_cast<uint32_t>(spec.dims.size()), address,
                     spec.dims.data(), spec.strides.data(), spec.box.data(), ones.data(), 0,
                     static_cast<uint32_t>(spec.swizzle), 0, 0);
    EXPECT_TRUE(done.has_value()) << done.error().message;
    return bytes;
  }
  /// A tensor map in device memory.
  uint64_t map(const MapSpec& spec, uint64_t address) {
    const auto bytes = encode(spec, address);
    return upload(std::vector<std::byte>(bytes.begin(), bytes.end()));
  }
  /// 64 x 32 elements of 16 bits, element (row, column) = 64 * row + column.
  uint64_t matrix() {
    std::vector<uint16_t> values(64 * 32);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint16_t>(i);
    return upload(values);
  }
};
PTXBENCH_ALL_POLICIES(TensorCopiesTest);

/// Barrier `bar` (%r10), buffer `buf` (%r11) of 4096 bytes, %p0 is thread 0.
std::string tensor_kernel(const std::string& body) {
  return kernel(R"(
  .shared .align 1024 .b8 buf[4096];
  .shared .align 8 .b64 bar;
  mov.u32 %r10, bar;
  mov.u32 %r11, buf;
  setp.eq.u32 %p0, %r0, 0;
  @%p0 mbarrier.init.shared::cta.b64 [%r10], 1;
  fence.mbarrier_init.release.cluster;
  barrier.cluster.arrive.release;
  barrier.cluster.wait.acquire;
)" + body);
}

/// Loads through the map at %rd1 with these coordinates, waits, and copies `bytes` of the buffer to %rd0.
std::string load_kernel(const std::string& form, const std::string& coordinates, unsigned bytes) {
  return tensor_kernel(R"(
  @!%p0 bra wait;
  mbarrier.arrive.expect_tx.shared::cta.b64 %rd20, [%r10], )" +
                       std::to_string(bytes) + R"(;
  cp.async.bulk.tensor.)" +
                       form + " [%r11], [%rd1, {" + coordinates + R"(}], [%r10];
wait:
  mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r10], 0;
  @!%p1 bra wait;
  shl.b32 %r2, %r0, 2;
copy:
  add.u32 %r3, %r11, %r2;
  ld.shared.u32 %r4, [%r3];
  cvt.u64.u32 %rd21, %r2;
  add.u64 %rd22, %rd0, %rd21;
  st.global.u32 [%rd22], %r4;
  add.u32 %r2, %r2, 128;
  setp.lt.u32 %p2, %r2, )" +
                       std::to_string(bytes) + R"(;
  @%p2 bra copy;
)");
}
constexpr const char* kLoad2d = "2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes";

TEST_P(TensorCopiesTest, SwizzledLoad) {
  const uint64_t out = zeros<uint16_t>(512);
  const uint64_t tensor_map = map({TensorDataType::u16, {64, 32}, {128}, {64, 8}, TensorSwizzle::bytes128}, matrix());
  const LaunchReport report = run(load_kernel(kLoad2d, "0, 9", 1024), {}, {out, tensor_map});
  EXPECT_EQ(report.tma_bytes, 1024u);
  const auto values = download<uint16_t>(out, 512);
  for (uint32_t row = 0; row < 8; ++row) {
    for (uint32_t column = 0; column < 64; ++column) {
      const uint32_t place = row * 64 + ((column / 8) ^ row) * 8 + column % 8;
      EXPECT_EQ(values[place], 64 * (9 + row) + column);
    }
  }
}

TEST_P(TensorCopiesTest, LoadOutsideTheTensorFillsZerosAndCountsTheWholeBox) {
  const uint64_t out = upload(std::vector<uint16_t>(128, 0xffff));
  const uint64_t tensor_map = map({TensorDataType::u16, {64, 32}, {128}, {32, 4}}, matrix());
  run(load_kernel("2d.shared::cta.global.mbarrier::complete_tx::bytes", "48, 30", 256), {}, {out, tensor_map});
  const auto values = download<uint16_t>(out, 128);
  for (uint32_t row = 0; row < 4; ++row) {
    for (uint32_t column = 0; column < 32; ++column) {
      EXPECT_EQ(values[row * 32 + column], row < 2 && column < 16 ? 64 * (30 + row) + 48 + column : 0u);
    }
  }
}

TEST_P(TensorCopiesTest, FiveDimensions) {
  std::vector<uint32_t> values(64);
  for (uint32_t i = 0; i < 64; ++i) values[i] = i + 1;
  const uint64_t out = zeros<uint32_t>(32);
  const uint64_t tensor_map =
      map({TensorDataType::u32, {4, 2, 2, 2, 2}, {16, 32, 64, 128}, {4, 2, 2, 2, 1}}, upload(values));
  run(load_kernel("5d.shared::cluster.global.mbarrier::complete_tx::bytes", "0, 0, 0, 0, 1", 128), {},
      {out, tensor_map});
  const auto result = download<uint32_t>(out, 32);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(result[i], 33 + i);
}

TEST_P(TensorCopiesTest, MapAsKernelParameter) {
  const uint64_t out = zeros<uint16_t>(512);
  const auto bytes = encode({TensorDataType::u16, {64, 32}, {128}, {64, 8}}, matrix());
  std::vector<uint64_t> parameters(17);
  std::memcpy(parameters.data(), bytes.data(), 128);
  parameters[16] = out;
  std::string text = load_kernel(kLoad2d, "0, 3", 1024);
  const std::string from = "(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3)";
  text.replace(text.find(from), from.size(), "(.param .align 64 .b8 map[128], .param .u64 p0)");
  for (const std::string& line : {std::string("ld.param.u64 %rd1, [p1];"), std::string("ld.param.u64 %rd2, [p2];"),
                                  std::string("ld.param.u64 %rd3, [p3];")}) {
    text.replace(text.find(line), line.size(), "");
  }
  text.replace(text.find("mov.u32 %r0"), 0, "mov.b64 %rd2, map;\n  cvta.param.u64 %rd1, %rd2;\n  ");
  run(text, {}, parameters);
  const auto values = download<uint16_t>(out, 512);
  for (uint32_t i = 0; i < 512; ++i) EXPECT_EQ(values[i], 192 + i);
}

TEST_P(TensorCopiesTest, MulticastLoad) {
  const uint64_t out = zeros<uint32_t>(128);
  const uint64_t tensor_map = map({TensorDataType::u16, {64, 32}, {128}, {64, 1}}, matrix());
  run(tensor_kernel(R"(
  mov.u32 %r2, %cluster_ctarank;
  @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 %rd20, [%r10], 256;
  mad.lo.u32 %r3, %r2, 128, %r11;
  add.u32 %r4, %r2, 4;
  mov.u16 %h1, 3;
  @%p0 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r3], [%rd1, {0, %r4}], [%r10], %h1;
wait:
  mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r10], 0;
  @!%p1 bra wait;
  mad.lo.u32 %r5, %r0, 8, %r11;
  ld.shared.v2.u32 {%r6, %r7}, [%r5];
  mad.lo.u32 %r8, %r2, 32, %r0;
  mad.wide.u32 %rd10, %r8, 8, %rd0;
  st.global.v2.u32 [%rd10], {%r6, %r7};
  barrier.cluster.arrive;
  barrier.cluster.wait;
)"),
      {.grid = 2, .cluster = 2}, {out, tensor_map});
  const auto values = download<uint16_t>(out, 256);
  for (uint32_t i = 0; i < 256; ++i) EXPECT_EQ(values[i], 64 * 4 + i % 128);
}

TEST_P(TensorCopiesTest, StoreAndReduce) {
  // A 16-byte wide, 8 rows high box of u32 is stored at column 4, row 2 of an 8 x 12 tensor and added at column 0,
  // row 6.
  const uint64_t out = upload(std::vector<uint32_t>(96, 7));
  const uint64_t tensor_map = map({TensorDataType::u32, {8, 12}, {32}, {4, 8}}, out);
  run(tensor_kernel(R"(
  mad.lo.u32 %r3, %r0, 4, %r11;
  add.u32 %r4, %r0, 100;
  st.shared.u32 [%r3], %r4;
  fence.proxy.async.shared::cta;
  bar.sync 0;
  @!%p0 bra done;
  cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd1, {4, 2}], [%r11];
  cp.async.bulk.commit_group;
  cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%rd1, {0, 6}], [%r11];
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
done:
)"),
      {}, {0, tensor_map});
  const auto values = download<uint32_t>(out, 96);
  for (uint32_t row = 0; row < 12; ++row) {
    for (uint32_t column = 0; column < 8; ++column) {
      uint32_t expected = 7;
      if (column >= 4 && row >= 2 && row < 10) expected = 100 + (row - 2) * 4 + column - 4;
      if (column < 4 && row >= 6) expected += 100 + (row - 6) * 4 + column;  // rows past the tensor are dropped
      EXPECT_EQ(values[row * 8 + column], expected) << row << " " << column;
    }
  }
}

TEST_P(TensorCopiesTest, MapsEditedOnTheDevice) {
  // The template map points at `wrong`; the kernel replaces address, height and box in shared memory, then publishes
  // it.
  const uint64_t wrong = zeros<uint16_t>(64 * 32), right = matrix();
  const uint64_t out = zeros<uint16_t>(256);
  const uint64_t source = map({TensorDataType::u16, {64, 16}, {128}, {64, 8}}, wrong);
  const uint64_t target = zeros<uint64_t>(16);
  run(tensor_kernel(R"(
  .shared .align 128 .b8 edited[128];
  mov.u32 %r12, edited;
  mad.lo.u32 %r13, %r0, 4, %r12;
  mad.wide.u32 %rd21, %r0, 4, %rd1;
  ld.global.u32 %r14, [%rd21];
  st.shared.u32 [%r13], %r14;
  bar.warp.sync -1;
  cvt.u64.u32 %rd22, %r12;
  @%p0 tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%rd22], %rd3;
  @%p0 tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%rd22], 1, 32;
  @%p0 tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%rd22], 1, 4;
  bar.warp.sync -1;
  tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd2], [%rd22], 128;
  fence.proxy.tensormap::generic.acquire.gpu [%rd2], 128;
  @!%p0 bra wait;
  mbarrier.arrive.expect_tx.shared::cta.b64 %rd20, [%r10], 512;
  cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r11], [%rd2, {0, 28}], [%r10];
wait:
  mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r10], 0;
  @!%p1 bra wait;
  mad.lo.u32 %r5, %r0, 16, %r11;
  ld.shared.v4.u32 {%r6, %r7, %r8, %r9}, [%r5];
  mad.wide.u32 %rd10, %r0, 16, %rd0;
  st.global.v4.u32 [%rd10], {%r6, %r7, %r8, %r9};
)"),
      {}, {out, source, target, right});
  const auto values = download<uint16_t>(out, 256);
  for (uint32_t i = 0; i < 256; ++i) EXPECT_EQ(values[i], 64 * 28 + i);
}

TEST_P(TensorCopiesTest, PrefetchChecksTheMapOnly) {
  const uint64_t tensor_map = map({TensorDataType::u16, {64, 32}, {128}, {64, 8}}, matrix());
  run(tensor_kernel("@%p0 cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd1, {0, 0}];"), {}, {0, tensor_map});
  fault(tensor_kernel("@%p0 cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd1, {0, 0}];"), {}, "tma.tensor-map",
        {0, zeros<uint64_t>(16)});
}

TEST_P(TensorCopiesTest, Errors) {
  const std::string load = load_kernel(kLoad2d, "0, 0", 1024);
  const uint64_t good = map({TensorDataType::u16, {64, 32}, {128}, {64, 8}, TensorSwizzle::bytes128}, matrix());
  EXPECT_THAT(fault(load, {}, "tma.tensor-map", {0, zeros<uint64_t>(16)}), HasSubstr("tensor map"));
  EXPECT_THAT(fault(load, {}, "tma.tensor-map", {0, good + 32}), HasSubstr("64"));
  fault(load, {}, "memory.out-of-bounds", {0, 0x40});
  fault(load_kernel("3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes", "0, 0, 0", 1024), {}, "tma.box",
        {0, good});
  EXPECT_THAT(fault(tensor_kernel(R"(
  cvt.u64.u32 %rd20, %r11;
  cvta.shared.u64 %rd21, %rd20;
  @%p0 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r11], [%rd21, {0, 0}], [%r10];
)"),
                    {}, "tma.tensor-map"),
              HasSubstr("shared"));
  fault(tensor_kernel(R"(
  @%p0 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r11+64], [%rd1, {0, 0}], [%r10];
)"),
        {}, "tma.box", {0, good});
  // The map claims 64 rows, the allocation has 32.
  const uint64_t tall = map({TensorDataType::u16, {64, 64}, {128}, {64, 8}}, matrix());
  EXPECT_THAT(fault(load_kernel(kLoad2d, "0, 40", 1024), {}, "memory.out-of-bounds", {0, tall}),
              HasSubstr("tensor map is larger"));
  EXPECT_THAT(fault(tensor_kernel(R"(
  mov.u16 %h1, 0;
  @%p0 cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%r11], [%rd1, {0, 0, 0}], [%r10], {%h1};
)"),
                    {}, "unsupported.instruction", {0, good}),
              HasSubstr("im2col"));
}

}  // namespace
}  // namespace ptxbench::emulator
