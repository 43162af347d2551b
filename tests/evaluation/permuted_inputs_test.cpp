// Permuted inputs give permuted results: what lets a sample of a timed call be compared with the truth of other inputs.

#include "evaluation/permuted_inputs.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "problem/dataset.h"
#include "problem/inputs.h"
#include "problem/reference.h"

namespace ptxbench::evaluation {
namespace {

using problem::Tensor;

TEST(SlicePermutation, IsOneAndHasAnInverse) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> seen;
  unsigned flips = 0;
  for (const std::uint32_t slices : {1u, 2u, 3u, 12u, 97u, 192u, 65536u}) {
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      const auto order = gpu::SlicePermutation::from_seed(seed, slices);
      std::vector<bool> taken(slices);
      for (std::uint32_t place = 0; place < slices; ++place) {
        const std::uint32_t source = order.source(place);
        ASSERT_LT(source, slices);
        ASSERT_FALSE(taken[source]) << slices << " slices, seed " << seed;
        taken[source] = true;
        ASSERT_EQ(order.place(source), place);
      }
      flips |= 1u << order.flips;
      if (slices == 192) seen.emplace(order.factor, order.shift);
    }
  }
  EXPECT_EQ(flips, 0xffu) << "every combination of signs occurs";
  EXPECT_GT(seen.size(), 50u);
}

/// The tensors as a timed call with `order` has them (Workspace::fill_input does the same on a GPU).
std::vector<Tensor> permuted(const std::vector<Tensor>& tensors, const gpu::SlicePermutation& order,
                             const std::vector<unsigned>& groups) {
  std::vector<Tensor> out;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    auto copy = Tensor::create(tensors[i].name, tensors[i].dtype, tensors[i].shape);
    const std::uint64_t bytes = tensors[i].bytes() / order.slices, element = problem::bits_of(tensors[i].dtype) / 8;
    for (std::uint32_t place = 0; place < order.slices; ++place) {
      auto* const to = static_cast<std::byte*>(copy->data()) + place * bytes;
      std::memcpy(to, static_cast<const std::byte*>(tensors[i].data()) + order.source(place) * bytes, bytes);
      for (std::uint64_t at = element - 1; order.flipped(groups[i]) && at < bytes; at += element)
        to[at] ^= std::byte{0x80};
    }
    out.push_back(std::move(*copy));
  }
  return out;
}

TEST(PermutedInputs, ResultsOfABackwardPassArePermutedAlike) {
  const auto dataset = problem::Dataset::load(*problem::dataset_roots({}));
  ASSERT_TRUE(dataset) << dataset.error().message;
  for (const std::string name : {"mha_bwd_d128", "mha_bwd_d128_causal", "mha_bwd_d64"}) {
    const auto definition = dataset->find_definition(name);
    ASSERT_TRUE(definition) << definition.error().message;
    const auto workload = dataset->workload_for_axes(**definition, {"B=2", "H=3", "S=70"});
    ASSERT_TRUE(workload) << workload.error().message;
    const auto problem = problem::make_problem(**definition, *workload);
    ASSERT_TRUE(problem) << problem.error().message;
    const auto rule = permuted_inputs(*problem);
    ASSERT_TRUE(rule);
    EXPECT_EQ(rule->slices, 6u);
    const auto inputs = problem::make_inputs(*problem, {});
    ASSERT_TRUE(inputs);
    const auto reference = problem::find_reference(**definition);
    ASSERT_TRUE(reference);
    const auto truth = (*reference)(problem::request_for(*problem, *inputs));
    ASSERT_TRUE(truth);
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      const auto order = gpu::SlicePermutation::from_seed(seed, rule->slices);
      const auto changed = permuted(*inputs, order, rule->inputs);
      const auto found = (*reference)(problem::request_for(*problem, changed));
      ASSERT_TRUE(found);
      const auto expected = permuted(truth->outputs, order, rule->outputs);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        // Equal as numbers: where a sum is zero its sign may differ.
        const auto a = expected[i].as<float>().first(expected[i].count),
                   b = found->outputs[i].as<float>().first(expected[i].count);
        for (std::size_t at = 0; at < a.size(); ++at)
          ASSERT_EQ(a[at], b[at]) << name << ", seed " << seed << ", output " << i << ", element " << at;
      }
    }
  }
}

TEST(PermutedInputs, AreOnlyForProblemsWithARule) {
  const auto dataset = problem::Dataset::load(*problem::dataset_roots({}));
  ASSERT_TRUE(dataset);
  const auto definition = dataset->find_definition("gemm_n7168_k5120");
  ASSERT_TRUE(definition);
  const auto workload = dataset->workload_for_axes(**definition, {"M=128"});
  ASSERT_TRUE(workload);
  EXPECT_FALSE(permuted_inputs(*problem::make_problem(**definition, *workload)));
}

}  // namespace
}  // namespace ptxbench::evaluation
