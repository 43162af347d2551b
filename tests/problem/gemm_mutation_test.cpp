// Mistakes that a GEMM must not get away with, and sound variants that it must; the list is part of the rule
// (docs/problems.md). Everything is computed from the operands, none of it by running a kernel.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "problem/comparison.h"
#include "problem/triage.h"

namespace ptxbench::problem {
namespace {

constexpr std::int64_t kM = 256, kN = 128, kK = 5120;

struct Gemm {
  Distribution distribution;
  std::vector<float> a, b;  ///< widened bf16
  std::vector<float> truth;
  MatrixRows a_rows{nullptr, Dtype::float32, 0, 0}, b_rows{nullptr, Dtype::float32, 0, 0};
};

std::vector<float> multiply(const std::vector<float>& a, const std::vector<float>& b, std::int64_t k = kK) {
  std::vector<float> out(static_cast<std::size_t>(kM * kN));
  const Tile all{0, kM, 0, kN};
  gemm_nt_truth(MatrixRows(a.data(), Dtype::float32, kM, k), MatrixRows(b.data(), Dtype::float32, kN, k), {&all, 1},
                out.data());
  return out;
}

const Gemm& gemm(Distribution distribution) {
  static std::map<Distribution, std::unique_ptr<Gemm>> made;
  auto& slot = made[distribution];
  if (!slot) {
    slot = std::make_unique<Gemm>();
    slot->distribution = distribution;
    const auto widened = [&](std::int64_t rows, std::uint32_t tensor) {
      auto raw = Tensor::create("x", Dtype::bfloat16, {rows, kK});
      fill(RandomTensor{Dtype::bfloat16, distribution, 11, tensor}, *raw);
      std::vector<float> wide(raw->count);
      to_float(Dtype::bfloat16, raw->data(), 0, raw->count, wide.data());
      return wide;
    };
    slot->a = widened(kM, 0);
    slot->b = widened(kN, 1);
    slot->truth = multiply(slot->a, slot->b);
    slot->a_rows = MatrixRows(slot->a.data(), Dtype::float32, kM, kK);
    slot->b_rows = MatrixRows(slot->b.data(), Dtype::float32, kN, kK);
  }
  return *slot;
}

Tensor rounded(const std::vector<float>& values) {
  auto tensor = Tensor::create("C", Dtype::bfloat16, {kM, kN});
  from_float(Dtype::bfloat16, values.data(), 0, values.size(), tensor->data());
  return std::move(*tensor);
}

using Mutation = std::function<Tensor(const Gemm&)>;

std::size_t at(std::int64_t row, std::int64_t column) { return static_cast<std::size_t>(row * kN + column); }

Tensor changed(const Gemm& gemm, const std::function<void(std::vector<float>&)>& change) {
  std::vector<float> values = gemm.truth;
  change(values);
  return rounded(values);
}

/// The product without k in [begin, end).
Tensor without_k(const Gemm& gemm, std::int64_t begin, std::int64_t end) {
  std::vector<float> a = gemm.a;
  for (std::int64_t row = 0; row < kM; ++row) std::fill_n(a.begin() + row * kK + begin, end - begin, 0.0f);
  return rounded(multiply(a, gemm.b));
}

/// Accumulators rounded by `round` after every 16 of K, as an MMA with such accumulators does. Products of two bf16 are
/// exact in fp32, so a multiplication and an addition round as a fused one.
template <class Round>
Tensor accumulated(const Gemm& gemm, const Round& round, bool backwards = false) {
  std::vector<float> b(gemm.b.size());  // [k][column], so that the inner loop vectorises
  for (std::int64_t column = 0; column < kN; ++column) {
    for (std::int64_t k = 0; k < kK; ++k)
      b[static_cast<std::size_t>(k * kN + column)] = gemm.b[static_cast<std::size_t>(column * kK + k)];
  }
  std::vector<float> values(gemm.truth.size(), 0.0f);
  for (std::int64_t row = 0; row < kM; ++row) {
    float* sum = values.data() + row * kN;
    for (std::int64_t step = 0; step < kK; step += 16) {
      float part[kN] = {};
      for (std::int64_t i = step; i < step + 16; ++i) {
        const std::int64_t k = backwards ? kK - 1 - i : i;
        const float left = gemm.a[static_cast<std::size_t>(row * kK + k)];
        const float* right = b.data() + k * kN;
        for (std::int64_t column = 0; column < kN; ++column) part[column] += left * right[column];
      }
      for (std::int64_t column = 0; column < kN; ++column) sum[column] = round(sum[column] + part[column]);
    }
  }
  return rounded(values);
}

std::vector<float> through(const std::vector<float>& values, const std::function<float(float)>& round) {
  std::vector<float> out(values.size());
  std::transform(values.begin(), values.end(), out.begin(), round);
  return out;
}

/// 16-byte pieces of K-major rows exchanged as a 128-byte swizzle would.
std::vector<float> swizzled(const std::vector<float>& values, std::int64_t rows) {
  std::vector<float> out(values.size());
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t k = 0; k < kK; ++k) {
      out[static_cast<std::size_t>(row * kK + k)] = values[static_cast<std::size_t>(row * kK + (k ^ ((row & 7) << 3)))];
    }
  }
  return out;
}

/// `values` with the stretch of K at `to` replaced by the one at `from`, in every row.
std::vector<float> with_k_from(std::vector<float> values, std::int64_t rows, std::int64_t to, std::int64_t from,
                               std::int64_t count) {
  for (std::int64_t row = 0; row < rows; ++row) {
    std::copy_n(values.begin() + row * kK + from, count, values.begin() + row * kK + to);
  }
  return values;
}

/// `values` with every 64-wide K tile but the first replaced by the one before it.
std::vector<float> one_tile_behind(const std::vector<float>& values, std::int64_t rows) {
  std::vector<float> out = values;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::copy_n(values.begin() + row * kK, kK - 64, out.begin() + row * kK + 64);
  }
  return out;
}

/// The rows x K matrix whose memory is taken for a K x rows one.
std::vector<float> reread(const std::vector<float>& values, std::int64_t rows) {
  std::vector<float> out(values.size());
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t k = 0; k < kK; ++k)
      out[static_cast<std::size_t>(row * kK + k)] = values[static_cast<std::size_t>(k * rows + row)];
  }
  return out;
}

/// The product with k in [begin, end) counted `factor` times.
Tensor with_k_times(const Gemm& gemm, std::int64_t begin, std::int64_t end, float factor) {
  std::vector<float> a = gemm.a;
  for (std::int64_t row = 0; row < kM; ++row) {
    for (std::int64_t k = begin; k < end; ++k) a[static_cast<std::size_t>(row * kK + k)] *= factor;
  }
  return rounded(multiply(a, gemm.b));
}

/// The operand whose k16 steps start `advance` apart within each tile of 64.
std::vector<float> with_k_steps(const std::vector<float>& matrix, std::int64_t rows, std::int64_t advance) {
  std::vector<float> read(matrix.size());
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t k = 0; k < kK; ++k) {
      const std::int64_t from = std::min(k / 64 * 64 + k % 64 / 16 * advance + k % 16, kK - 1);
      read[static_cast<std::size_t>(row * kK + k)] = matrix[static_cast<std::size_t>(row * kK + from)];
    }
  }
  return read;
}

struct Entry {
  const char* name;
  const char* pattern;  ///< of the first hypothesis; null when none in particular is expected
  Mutation make;
};

const std::vector<Entry>& mutations() {
  static const std::vector<Entry> kList = {
      {"zeros", "all_zero",
       [](const Gemm& g) { return changed(g, [](auto& c) { std::fill(c.begin(), c.end(), 0.0f); }); }},
      {"constant", "constant_value",
       [](const Gemm& g) { return changed(g, [](auto& c) { std::fill(c.begin(), c.end(), 1.0f); }); }},
      {"64 rows of zeros", "all_zero",
       [](const Gemm& g) { return changed(g, [](auto& c) { std::fill_n(c.begin() + 64 * kN, 64 * kN, 0.0f); }); }},
      {"64 rows of one value", "constant_value",
       [](const Gemm& g) { return changed(g, [](auto& c) { std::fill_n(c.begin() + 64 * kN, 64 * kN, -3.0f); }); }},
      {"copy of an input", nullptr,
       [](const Gemm& g) { return changed(g, [&](auto& c) { std::copy_n(g.a.begin(), c.size(), c.begin()); }); }},
      {"times 1.02", "constant_scale",
       [](const Gemm& g) {
         return changed(g, [](auto& c) {
           for (float& v : c) v *= 1.02f;
         });
       }},
      {"times 0.98", "constant_scale",
       [](const Gemm& g) {
         return changed(g, [](auto& c) {
           for (float& v : c) v *= 0.98f;
         });
       }},
      {"one row block times 1.5", "constant_scale",
       [](const Gemm& g) {
         return changed(g, [](auto& c) {
           for (std::size_t i = at(64, 0); i < at(128, 0); ++i) c[i] *= 1.5f;
         });
       }},
      {"every row with a factor of its own", "missing_rescale",
       [](const Gemm& g) {
         return changed(g, [](auto& c) {
           for (std::int64_t row = 0; row < kM; ++row) {
             for (std::int64_t column = 0; column < kN; ++column)
               c[at(row, column)] *= 0.5f + 0.01f * static_cast<float>(row);
           }
         });
       }},
      {"columns of 32 with a factor of their own", "missing_rescale",
       [](const Gemm& g) {
         return changed(g, [](auto& c) {
           for (std::int64_t row = 0; row < kM; ++row) {
             for (std::int64_t column = 0; column < kN; ++column)
               c[at(row, column)] *= 1.0f + 0.25f * static_cast<float>(column - column % 32) / 32.0f;
           }
         });
       }},
      {"first half of K halved", "missing_rescale", [](const Gemm& g) { return with_k_times(g, 0, kK / 2, 0.5f); }},
      {"last K tiles times 3", "missing_rescale", [](const Gemm& g) { return with_k_times(g, kK - 640, kK, 3.0f); }},
      {"K steps 16 bytes apart", "k_step",
       [](const Gemm& g) { return rounded(multiply(with_k_steps(g.a, kM, 8), with_k_steps(g.b, kN, 8))); }},
      {"K steps of B that do not advance", "k_step",
       [](const Gemm& g) { return rounded(multiply(g.a, with_k_steps(g.b, kN, 0))); }},
      {"one K tile added twice", "repeated_k", [](const Gemm& g) { return with_k_times(g, 1280, 1344, 2.0f); }},
      {"first K tile added twice", "repeated_k", [](const Gemm& g) { return with_k_times(g, 0, 128, 2.0f); }},
      {"one 64-wide K tile skipped", "missing_k", [](const Gemm& g) { return without_k(g, 1280, 1344); }},
      {"last 1 % of K skipped", "missing_k", [](const Gemm& g) { return without_k(g, kK - kK / 100, kK); }},
      {"stale pipeline stage", "stale_k",
       [](const Gemm& g) {
         return rounded(multiply(with_k_from(g.a, kM, 640, 384, 64), with_k_from(g.b, kN, 640, 384, 64)));
       }},
      {"stale stage of A", "stale_k",
       [](const Gemm& g) { return rounded(multiply(with_k_from(g.a, kM, 640, 384, 64), g.b)); }},
      {"stale last stage of B", "stale_k",
       [](const Gemm& g) { return rounded(multiply(g.a, with_k_from(g.b, kN, kK - 128, 512, 128))); }},
      {"A one tile behind", "stale_k", [](const Gemm& g) { return rounded(multiply(one_tile_behind(g.a, kM), g.b)); }},
      {"B one tile behind", "stale_k", [](const Gemm& g) { return rounded(multiply(g.a, one_tile_behind(g.b, kN))); }},
      {"both one tile behind", "stale_k",
       [](const Gemm& g) { return rounded(multiply(one_tile_behind(g.a, kM), one_tile_behind(g.b, kN))); }},
      {"A read as if transposed", "transposed_operand",
       [](const Gemm& g) { return rounded(multiply(reread(g.a, kM), g.b)); }},
      {"B read as if transposed", "transposed_operand",
       [](const Gemm& g) { return rounded(multiply(g.a, reread(g.b, kN))); }},
      {"last 128 rows unwritten", "unwritten_region",
       [](const Gemm& g) {
         Tensor output = rounded(g.truth);
         auto poison = Tensor::create("p", Dtype::bfloat16, {kM, kN});
         fill_poison(*poison);
         std::copy_n(poison->as<std::uint16_t>().begin(), 128 * kN,
                     output.as<std::uint16_t>().begin() + (kM - 128) * kN);
         return output;
       }},
      {"one tile unwritten", "unwritten_region",
       [](const Gemm& g) {
         Tensor output = rounded(g.truth);
         auto poison = Tensor::create("p", Dtype::bfloat16, {kN});
         fill_poison(*poison);
         for (std::int64_t row = 64; row < 128; ++row)
           std::copy_n(poison->as<std::uint16_t>().begin(), 64, output.as<std::uint16_t>().begin() + row * kN + 64);
         return output;
       }},
      {"a tile stored in place of another", "stale_tile",
       [](const Gemm& g) {
         return changed(g, [&](auto& c) {
           for (std::int64_t i = 0; i < 64; ++i)
             std::copy_n(g.truth.begin() + i * kN + 64, 64, c.begin() + (128 + i) * kN);
         });
       }},
      {"a row block stored again", "stale_tile",
       [](const Gemm& g) {
         return changed(g, [](auto& c) { std::copy_n(c.begin(), 64 * kN, c.begin() + 128 * kN); });
       }},
      {"16 columns of the tile before", "stale_tile",
       [](const Gemm& g) {
         return changed(g, [&](auto& c) {
           for (std::int64_t row = 16; row < 48; ++row)
             std::copy_n(g.truth.begin() + (row + 32) * kN + 48, 16, c.begin() + row * kN + 16);
         });
       }},
      {"last 24 rows garbled", "tail_only",
       [](const Gemm& g) {
         return changed(g, [&](auto& c) {
           for (std::size_t i = at(kM - 24, 0); i < c.size(); ++i) c[i] += 3 * g.truth[i - at(100, 0)] + 1;
         });
       }},
      {"last 32 columns zero", "tail_only",
       [](const Gemm& g) {
         return changed(g, [](auto& c) {
           for (std::int64_t row = 0; row < kM; ++row) std::fill_n(c.begin() + row * kN + 96, 32, 0.0f);
         });
       }},
      {"rows shifted by 8 in every block", "permuted_rows",
       [](const Gemm& g) {
         return changed(g, [&](auto& c) {
           for (std::int64_t row = 0; row < kM; ++row)
             std::copy_n(g.truth.begin() + (row / 64 * 64 + (row + 8) % 64) * kN, kN, c.begin() + row * kN);
         });
       }},
      {"neighbouring columns exchanged", "permuted_columns",
       [](const Gemm& g) {
         return changed(g, [&](auto& c) {
           for (std::size_t i = 0; i < c.size(); ++i) c[i] = g.truth[i ^ 1];
         });
       }},
      {"pieces of 32 bytes exchanged", "permuted_chunks",
       [](const Gemm& g) {
         return changed(g, [&](auto& c) {
           for (std::int64_t row = 0; row < kM; ++row) {
             for (std::int64_t column = 0; column < kN; ++column)
               c[at(row, column)] = g.truth[at(row, column ^ (((row >> 2) & 1) << 3))];
           }
         });
       }},
      {"16x16 tiles transposed", "transposed_tile",
       [](const Gemm& g) {
         return changed(g, [&](auto& c) {
           for (std::int64_t row = 0; row < kM; ++row) {
             for (std::int64_t column = 0; column < kN; ++column)
               c[at(row, column)] = g.truth[at(row / 16 * 16 + column % 16, column / 16 * 16 + row % 16)];
           }
         });
       }},
      {"two row blocks swapped", "permuted_rows",
       [](const Gemm& g) {
         return changed(
             g, [](auto& c) { std::swap_ranges(c.begin() + 64 * kN, c.begin() + 128 * kN, c.begin() + 192 * kN); });
       }},
      {"transposed tile", "transposed_tile",
       [](const Gemm& g) {
         return changed(g, [&](auto& c) {
           for (std::int64_t i = 0; i < 64; ++i) {
             for (std::int64_t j = 0; j < 64; ++j) c[at(64 + i, j)] = g.truth[at(64 + j, i)];
           }
         });
       }},
      {"columns shifted by one", "permuted_columns",
       [](const Gemm& g) {
         return changed(g, [&](auto& c) {
           for (std::int64_t row = 0; row < kM; ++row) {
             for (std::int64_t column = 0; column < kN; ++column)
               c[at(row, column)] = g.truth[at(row, (column + 1) % kN)];
           }
         });
       }},
      {"output pieces swizzled", "permuted_chunks",
       [](const Gemm& g) {
         return changed(g, [&](auto& c) {
           for (std::int64_t row = 0; row < kM; ++row) {
             for (std::int64_t column = 0; column < kN; ++column) {
               c[at(row, column)] = g.truth[at(row, column ^ ((row & 7) << 3))];
             }
           }
         });
       }},
      {"A read without its swizzle", "operand_swizzle",
       [](const Gemm& g) { return rounded(multiply(swizzled(g.a, kM), g.b)); }},
      {"B read without its swizzle", "operand_swizzle",
       [](const Gemm& g) { return rounded(multiply(g.a, swizzled(g.b, kN))); }},
      {"both read without their swizzle", "operand_swizzle",
       [](const Gemm& g) { return rounded(multiply(swizzled(g.a, kM), swizzled(g.b, kN))); }},
      {"fp16 accumulation", "low_precision",
       [](const Gemm& g) { return accumulated(g, [](float v) { return from_float16(to_float16(v)); }); }},
      {"bf16 accumulation", "low_precision",
       [](const Gemm& g) { return accumulated(g, [](float v) { return from_bfloat16(to_bfloat16(v)); }); }},
      {"inputs in e4m3", "low_precision",
       [](const Gemm& g) {
         const auto e4m3 = [](float v) { return from_e4m3(to_e4m3(v)); };
         return rounded(multiply(through(g.a, e4m3), through(g.b, e4m3)));
       }},
      {"NaN in one element", "not_finite",
       [](const Gemm& g) { return changed(g, [](auto& c) { c[at(200, 77)] = std::nanf(""); }); }},
      {"NaN in a row block", "not_finite",
       [](const Gemm& g) {
         return changed(g, [](auto& c) { std::fill_n(c.begin() + 64 * kN, 64 * kN, std::nanf("")); });
       }},
      {"infinity in one element", "not_finite",
       [](const Gemm& g) { return changed(g, [](auto& c) { c[at(0, 0)] = INFINITY; }); }},
      {"one element wrong", nullptr,
       [](const Gemm& g) {
         // A tenth of its row's rms.
         return changed(g, [](auto& c) {
           float squares = 0;
           for (std::int64_t column = 0; column < kN; ++column) squares += c[at(17, column)] * c[at(17, column)];
           c[at(17, 3)] += 0.1f * std::sqrt(squares / static_cast<float>(kN));
         });
       }},
      {"one row of zeros", nullptr,
       [](const Gemm& g) { return changed(g, [](auto& c) { std::fill_n(c.begin() + 100 * kN, kN, 0.0f); }); }},
  };
  return kList;
}

TensorComparison judge(const Gemm& gemm, const Tensor& output) {
  CompareOptions options;
  options.a = &gemm.a_rows;
  options.b = &gemm.b_rows;
  return compare(output, gemm.truth, limits_for("gemm", Dtype::bfloat16), options);
}

TEST(Mutations, AllFail) {
  for (const Distribution distribution :
       {Distribution::normal, Distribution::scaled, Distribution::spiky, Distribution::bell}) {
    for (const Entry& mutation : mutations()) {
      const auto result = judge(gemm(distribution), mutation.make(gemm(distribution)));
      EXPECT_EQ(result.verdict, Verdict::failed) << mutation.name << " with " << to_string(distribution) << " inputs\n"
                                                 << describe(result);
      EXPECT_FALSE(result.failures.empty());
    }
  }
}

TEST(Mutations, AreExplained) {
  const Gemm& normal = gemm(Distribution::normal);
  for (const Entry& mutation : mutations()) {
    if (mutation.pattern == nullptr) continue;
    const auto result = judge(normal, mutation.make(normal));
    ASSERT_FALSE(result.hypotheses.empty()) << mutation.name << "\n" << describe(result);
    EXPECT_EQ(result.hypotheses[0].pattern, mutation.pattern) << mutation.name << "\n" << describe(result);
  }
}

// At least two faults for every explanation, each with a rule and a remedy of its own.
TEST(Mutations, EveryExplanationIsTried) {
  std::map<std::string, int> tried;
  for (const Entry& mutation : mutations()) {
    if (mutation.pattern != nullptr) ++tried[mutation.pattern];
  }
  tried["transposed_matrix"] = 2;  // square outputs, below
  for (const auto& [pattern, count] : tried) {
    EXPECT_GE(count, 2) << pattern;
    EXPECT_NE(remedy_for(pattern), remedy_for("no such pattern")) << pattern;
    EXPECT_EQ(rule_for(pattern).find('_'), std::string::npos);
  }
  EXPECT_EQ(rule_for("stale_tile"), "numeric.stale-tile");
  EXPECT_EQ(tried.size(), 20u);
}

TEST(Mutations, TransposedMatrix) {
  for (const Dtype dtype : {Dtype::bfloat16, Dtype::float16}) {
    constexpr std::int64_t kSize = 128;
    std::vector<float> truth(kSize * kSize);
    RandomTensor{Dtype::float32, Distribution::normal, 5, 0}.fill(0, truth.size(), truth.data());
    std::vector<float> values(truth.size());
    for (std::size_t i = 0; i < truth.size(); ++i) values[i] = truth[i % kSize * kSize + i / kSize];
    auto output = Tensor::create("C", dtype, {kSize, kSize});
    from_float(dtype, values.data(), 0, values.size(), output->data());
    const auto wrong = compare(*output, truth, limits_for("gemm", dtype));
    ASSERT_FALSE(wrong.hypotheses.empty());
    EXPECT_EQ(wrong.hypotheses[0].pattern, "transposed_matrix");
    from_float(dtype, truth.data(), 0, truth.size(), output->data());
    EXPECT_TRUE(compare(*output, truth, limits_for("gemm", dtype)).hypotheses.empty());
  }
}

TEST(Mutations, ExplanationsNameThePlace) {
  const Gemm& normal = gemm(Distribution::normal);
  const auto text_of = [&](const char* name) {
    const auto found = std::find_if(mutations().begin(), mutations().end(),
                                    [&](const Entry& entry) { return std::string_view(entry.name) == name; });
    return describe(judge(normal, found->make(normal)));
  };
  EXPECT_NE(text_of("one 64-wide K tile skipped").find("k 1280-1343"), std::string::npos)
      << text_of("one 64-wide K tile skipped");
  EXPECT_NE(text_of("last 128 rows unwritten").find("rows 128-255"), std::string::npos);
  EXPECT_NE(text_of("transposed tile").find("64x64 tiles are transposed"), std::string::npos);
  EXPECT_NE(text_of("A read without its swizzle").find("A is stored with a 128-byte swizzle"), std::string::npos);
  EXPECT_NE(text_of("both read without their swizzle").find("A and B"), std::string::npos);
  EXPECT_NE(text_of("times 1.02").find("1.02"), std::string::npos);
  EXPECT_NE(text_of("stale pipeline stage").find("k 640-703"), std::string::npos) << text_of("stale pipeline stage");
  const auto names = [&](const char* name, std::string_view what) {
    EXPECT_NE(text_of(name).find(what), std::string::npos) << text_of(name);
  };
  names("stale stage of A", "for k 640-703 the tile of A is that of k 384-447");
  names("stale last stage of B", "for k 4992-5119 the tile of B is that of k 512-639");
  names("B one tile behind", "B is 64 of K behind A");
  names("A read as if transposed", "A is read as if");
  names("first half of K halved", "the sum over k 0-2559 enters 0.5 times");
  names("last K tiles times 3", "the sum over k 4480-5119 enters 3 times");
  names("one K tile added twice", "k 1280-1343 was added twice");
  names("every row with a factor of its own", "row 0 times 0.5");
  names("one row block times 1.5", "the wrong rows are 1.5 times");
  names("a tile stored in place of another",
        "the tile at row 128, column 0 holds the results of the one at row 0, column 64");
  names("last 24 rows garbled", "only the last 24 of 256 rows are wrong, from row 232 on");
  names("last 32 columns zero", "only the last 32 of 128 columns are wrong");
}

TEST(Controls, SoundVariantsPass) {
  for (const Distribution distribution :
       {Distribution::normal, Distribution::scaled, Distribution::spiky, Distribution::bell}) {
    const Gemm& g = gemm(distribution);
    const std::pair<const char*, Mutation> controls[] = {
        {"rounded truth", [](const Gemm& x) { return rounded(x.truth); }},
        {"fp32 accumulation, one chain", [](const Gemm& x) { return accumulated(x, [](float v) { return v; }); }},
        {"K backwards",
         [](const Gemm& x) {
           return accumulated(
               x, [](float v) { return v; }, true);
         }},
        {"split K in four with fp32 partial sums",
         [](const Gemm& x) {
           std::vector<float> values(x.truth.size(), 0.0f);
           for (int part = 0; part < 4; ++part) {
             std::vector<float> a = x.a;
             for (std::int64_t row = 0; row < kM; ++row) {
               for (std::int64_t k = 0; k < kK; ++k) {
                 if (k / (kK / 4) != part) a[static_cast<std::size_t>(row * kK + k)] = 0;
               }
             }
             const auto sum = multiply(a, x.b);
             for (std::size_t i = 0; i < values.size(); ++i) values[i] += sum[i];
           }
           return rounded(values);
         }},
    };
    for (const auto& [name, make] : controls) {
      const auto result = judge(g, make(g));
      EXPECT_EQ(result.verdict, Verdict::passed) << name << " with " << to_string(distribution) << " inputs\n"
                                                 << describe(result);
      EXPECT_LT(result.tensor_l2, 0.002);
      EXPECT_TRUE(result.hypotheses.empty()) << name;
    }
  }
}

TEST(Compat, IsLooserWhereTheReferenceIs) {
  const Gemm& g = gemm(Distribution::normal);
  EXPECT_TRUE(judge(g, rounded(g.truth)).compat.passed);
  // The published slack: a factor of 1.005 keeps nearly all elements within 1 %.
  const auto scaled = judge(g, changed(g, [](auto& c) {
                              for (float& v : c) v *= 1.005f;
                            }));
  EXPECT_EQ(scaled.verdict, Verdict::failed);
  EXPECT_LT(scaled.compat.bad_elements, static_cast<std::uint64_t>(kM * kN / 100));
  EXPECT_FALSE(judge(g, changed(g,
                                [](auto& c) {
                                  for (float& v : c) v *= 1.02f;
                                }))
                   .compat.passed);
}

}  // namespace
}  // namespace ptxbench::problem
