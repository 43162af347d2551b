// A CUTLASS 3 GEMM for sm_90a, checked on the host. Compiled once per variant:
//   ELEMENT   cutlass::bfloat16_t, cutlass::half_t, cutlass::float_e4m3_t
//   SCHEDULE  KernelTmaWarpSpecialized, ...Cooperative, ...Pingpong, ...FP8FastAccum
//   EPILOGUE  TmaWarpSpecialized or TmaWarpSpecializedCooperative
//   CLUSTER_M, CLUSTER_N, TILE_M
#include <cutlass/cutlass.h>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/device/gemm_universal_adapter.h>
#include <cutlass/gemm/kernel/gemm_universal.hpp>
#include <cutlass/util/packed_stride.hpp>

#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

using Element = ELEMENT;
using Output = cutlass::bfloat16_t;
using RowMajor = cutlass::layout::RowMajor;
using ColumnMajor = cutlass::layout::ColumnMajor;
using Tile = cute::Shape<cute::Int<TILE_M>, cute::_128, cute::_64>;
using Cluster = cute::Shape<cute::Int<CLUSTER_M>, cute::Int<CLUSTER_N>, cute::_1>;
constexpr int kAlignment = 16 / sizeof(Element), kOutputAlignment = 8;

using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Cluster, cutlass::epilogue::collective::EpilogueTileAuto,
    float, float, Output, RowMajor, kOutputAlignment, Output, RowMajor, kOutputAlignment,
    cutlass::epilogue::EPILOGUE>::CollectiveOp;
using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Element, RowMajor, kAlignment, Element, ColumnMajor,
    kAlignment, float, Tile, Cluster,
    cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(sizeof(typename Epilogue::SharedStorage))>,
    cutlass::gemm::SCHEDULE>::CollectiveOp;
using Kernel = cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, Mainloop, Epilogue>;
using Gemm = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;

#define CHECK(call)                                                                             \
  if (const cudaError_t error = (call); error != cudaSuccess) {                                 \
    return std::printf("%s: %s\n", #call, cudaGetErrorString(error)), 1;                        \
  }
#define CHECK_CUTLASS(call)                                                                     \
  if (const cutlass::Status status = (call); status != cutlass::Status::kSuccess) {             \
    return std::printf("%s: %s\n", #call, cutlass::cutlassGetStatusString(status)), 1;          \
  }

template <class T>
std::vector<T> random_matrix(size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> distribution;
  std::vector<T> values(count);
  for (T& value : values) value = T(distribution(generator));
  return values;
}

int main() {
  constexpr int m = 328, n = 208, k = 320;
  constexpr float alpha = 0.75f, beta = 0.5f;
  const auto a = random_matrix<Element>(size_t(m) * k, 1), b = random_matrix<Element>(size_t(n) * k, 2);
  const auto c = random_matrix<Output>(size_t(m) * n, 3);
  std::vector<Output> d(size_t(m) * n);
  Element *a_device, *b_device;
  Output *c_device, *d_device;
  CHECK(cudaMalloc(&a_device, a.size() * sizeof(Element)));
  CHECK(cudaMalloc(&b_device, b.size() * sizeof(Element)));
  CHECK(cudaMalloc(&c_device, c.size() * sizeof(Output)));
  CHECK(cudaMalloc(&d_device, d.size() * sizeof(Output)));
  CHECK(cudaMemcpy(a_device, a.data(), a.size() * sizeof(Element), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(b_device, b.data(), b.size() * sizeof(Element), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(c_device, c.data(), c.size() * sizeof(Output), cudaMemcpyHostToDevice));
  CHECK(cudaMemset(d_device, 0xff, d.size() * sizeof(Output)));

  const auto stride_a = cutlass::make_cute_packed_stride(typename Kernel::StrideA{}, {m, k, 1});
  const auto stride_b = cutlass::make_cute_packed_stride(typename Kernel::StrideB{}, {n, k, 1});
  const auto stride_c = cutlass::make_cute_packed_stride(typename Kernel::StrideC{}, {m, n, 1});
  const auto stride_d = cutlass::make_cute_packed_stride(typename Kernel::StrideD{}, {m, n, 1});
  const auto hardware = cutlass::KernelHardwareInfo::make_kernel_hardware_info<Kernel>(0);
  typename Gemm::Arguments arguments{cutlass::gemm::GemmUniversalMode::kGemm,
                                     {m, n, k, 1},
                                     {a_device, stride_a, b_device, stride_b},
                                     {{alpha, beta}, c_device, stride_c, d_device, stride_d},
                                     hardware};
  Gemm gemm;
  CHECK_CUTLASS(gemm.can_implement(arguments));
  void* workspace = nullptr;
  if (const size_t bytes = Gemm::get_workspace_size(arguments); bytes != 0) CHECK(cudaMalloc(&workspace, bytes));
  CHECK_CUTLASS(gemm.initialize(arguments, workspace));
  CHECK_CUTLASS(gemm.run());
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(d.data(), d_device, d.size() * sizeof(Output), cudaMemcpyDeviceToHost));

  // FP8 tensor cores keep only some 13 fractional bits while they add.
  const double slack = sizeof(Element) == 1 ? 0.1 : 1e-3;
  size_t wrong = 0;
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      double sum = 0;
      for (int l = 0; l < k; ++l) sum += double(float(a[size_t(i) * k + l])) * double(float(b[size_t(j) * k + l]));
      const double expected = double(alpha) * sum + double(beta) * double(float(c[size_t(i) * n + j]));
      const double found = float(d[size_t(i) * n + j]);
      if (!(std::abs(found - expected) <= slack + std::abs(expected) / 256) && wrong++ < 4) {
        std::printf("D[%d, %d] is %g instead of %g\n", i, j, found, expected);
      }
    }
  }
  std::printf("%zu of %d elements wrong\n", wrong, m * n);
  return wrong != 0;
}
