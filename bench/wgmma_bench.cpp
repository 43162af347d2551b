// wgmma batches as a GEMM main loop issues them, against the processor's own peak in the same run.
#include "emulator/tensor/tensor_box.h"
#include "emulator/tensor/tensor_kernels.h"
#include "emulator/tensor/wgmma.h"

#include <benchmark/benchmark.h>
#include <immintrin.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace ptxbench::emulator {
namespace {

void report_flops(benchmark::State& state, double flops_per_iteration) {
  state.counters["GFLOP/s"] = benchmark::Counter(flops_per_iteration * static_cast<double>(state.iterations()) * 1e-9,
                                                 benchmark::Counter::kIsRate);
}

void peak_fma(benchmark::State& state) {
  __m256 acc[12];
  for (auto& vector : acc) {
    vector = _mm256_set1_ps(1.0F);
  }
  const __m256 a = _mm256_set1_ps(0.999F);
  const __m256 b = _mm256_set1_ps(1e-3F);
  constexpr int kRounds = 1000;
  for (auto _ : state) {
    for (int round = 0; round < kRounds; ++round) {
      for (auto& vector : acc) {
        vector = _mm256_fmadd_ps(vector, a, b);
      }
    }
    for (auto& vector : acc) {
      benchmark::DoNotOptimize(vector);
    }
  }
  report_flops(state, 12.0 * 8 * 2 * kRounds);
}

// Two warpgroups of a 128 x n tile, four k-steps per commit group, 128-byte swizzled K-major operands, several stages.
struct Tile {
  Tile(unsigned n, MmaType type, AccumulatorType accumulator) : shared(1U << 18) {
    shape.n = n;
    shape.a_type = shape.b_type = type;
    shape.accumulator = accumulator;
    std::mt19937 random(1);
    for (std::size_t i = 0; i < shared.size(); i += 2) {
      // Halves near one in every format: no special values.
      const std::uint16_t half = is_integer(type) || is_fp8(type)
                                     ? static_cast<std::uint16_t>(random() & 0xb7b7U)
                                     : static_cast<std::uint16_t>(0x3f00U | (random() & 0x80ffU));
      std::memcpy(shared.data() + i, &half, sizeof half);
    }
    registers.resize(std::size_t{2} * 4 * shape.d_registers() * 32);
    pointers.resize(std::size_t{2} * 4 * shape.d_registers());
    for (std::size_t i = 0; i < pointers.size(); ++i) {
      pointers[i] = registers.data() + i * 32;
    }
  }

  void run(WgmmaEngine& engine, std::uint64_t generation, MmaMode mode) {
    const unsigned stage = static_cast<unsigned>(generation % 4) * 49152;
    for (unsigned group = 0; group < 2; ++group) {
      std::vector<WgmmaStep> steps(4);
      for (unsigned k = 0; k < 4; ++k) {
        const auto descriptor = [&](std::uint32_t address) {
          return MatrixDescriptor{address + 32 * k, 16, 1024, 0, MatrixSwizzle::bytes128}.encode();
        };
        steps[k] = {descriptor(stage + group * 8192), descriptor(stage + 16384), true};
      }
      WgmmaWarp warps[4];
      for (unsigned w = 0; w < 4; ++w) {
        warps[w] = {w, pointers.data() + (group * 4 + w) * shape.d_registers(), nullptr};
      }
      engine.execute(shape, steps, warps, shared.data(), generation, mode);
    }
  }

  double flops() const { return 2.0 * 2 * 64 * shape.n * 4 * shape.k(); }

  WgmmaShape shape;
  std::vector<std::byte> shared;
  std::vector<std::uint32_t> registers;
  std::vector<std::uint32_t*> pointers;
};

void wgmma(benchmark::State& state, MmaType type, AccumulatorType accumulator, MmaMode mode) {
  Tile tile(static_cast<unsigned>(state.range(0)), type, accumulator);
  WgmmaEngine engine;
  std::uint64_t generation = 0;
  for (auto _ : state) {
    tile.run(engine, ++generation, mode);
    if (generation % 64 == 0) {  // keep sums away from infinity
      std::fill(tile.registers.begin(), tile.registers.end(), 0U);
    }
  }
  report_flops(state, tile.flops());
  state.SetLabel(tensor_kernels().level);
}

void tma_load_64x64_bf16(benchmark::State& state) {
  std::vector<std::byte> global(1U << 20, std::byte{1});
  std::vector<std::byte> shared(1U << 16);
  TensorMap map;
  map.data_type = TensorDataType::bf16;
  map.rank = 2;
  map.global_dims = {512, 1024};
  map.global_strides = {1024};
  map.box_dims = {64, 64};
  map.element_strides = {1, 1};
  map.swizzle = TensorSwizzle::bytes128;
  int tile = 0;
  for (auto _ : state) {
    load_box(map, {64 * (tile % 8), 64 * (tile / 8 % 16)}, {shared.data(), 1U << 16}, 8192U * (tile % 4),
             {global.data()});
    ++tile;
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * 8192);
}

BENCHMARK(peak_fma);
BENCHMARK_CAPTURE(wgmma, bf16_fast, MmaType::bf16, AccumulatorType::f32, MmaMode::fast)->Arg(64)->Arg(128)->Arg(256);
BENCHMARK_CAPTURE(wgmma, bf16_exact, MmaType::bf16, AccumulatorType::f32, MmaMode::exact)->Arg(256);
BENCHMARK_CAPTURE(wgmma, tf32_fast, MmaType::tf32, AccumulatorType::f32, MmaMode::fast)->Arg(256);
BENCHMARK_CAPTURE(wgmma, e4m3, MmaType::e4m3, AccumulatorType::f32, MmaMode::fast)->Arg(256);
BENCHMARK_CAPTURE(wgmma, s8, MmaType::s8, AccumulatorType::s32, MmaMode::fast)->Arg(256);
BENCHMARK(tma_load_64x64_bf16);

}  // namespace
}  // namespace ptxbench::emulator

BENCHMARK_MAIN();
