// Multi-head latent attention: how it is recognised, what is derived and refused, and the shipped problems.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "gqa_model.h"

namespace ptxbench::problem {
namespace {

constexpr GqaCase kDecode{GqaKind::decode, 4, 4, 60, 90, 1, 4, 1, 64, Distribution::normal, 16};
constexpr GqaCase kPages{GqaKind::prefill, 3, 30, 12, 20, 16, 4, 1, 64, Distribution::normal, 16};
constexpr GqaCase kRagged{GqaKind::ragged, 3, 30, 70, 1, 1, 4, 4, 48, Distribution::normal, 0, 32};

TEST(References, MlaIsFoundByStructure) {
  const Definition decode = gqa_definition(kDecode), pages = gqa_definition(kPages), ragged = gqa_definition(kRagged);
  EXPECT_FALSE(mla_roles(decode)->causal);
  EXPECT_TRUE(mla_roles(pages)->causal);
  EXPECT_TRUE(mla_roles(pages)->kv_last_page_len);
  EXPECT_TRUE(mla_roles(ragged)->causal);
  EXPECT_FALSE(mla_roles(ragged)->paged());
  EXPECT_FALSE(gqa_roles(decode) || gqa_roles(ragged));
  EXPECT_FALSE(mla_roles(gqa_definition({GqaKind::decode})) || mla_roles(gqa_definition({GqaKind::ragged})));
  EXPECT_EQ(mla_roles(decode)->v, mla_roles(decode)->k);
  Definition other = pages;
  std::swap(other.inputs[0], other.inputs[5]);
  EXPECT_EQ(mla_roles(other)->q, 5u) << "the order of the call is free";
  EXPECT_TRUE(refused(decode, [](Definition& d) { d.op_type = "mla_ragged"; }));
  EXPECT_TRUE(refused(decode, [](Definition& d) { d.op_type = "gqa_paged"; }));
  EXPECT_TRUE(refused(ragged, [](Definition& d) { d.op_type = "mla_paged"; }));
  EXPECT_TRUE(refused(decode, [](Definition& d) { d.inputs[1].name = "q_rope"; }));
  EXPECT_TRUE(refused(decode, [](Definition& d) { d.inputs[1].shape->back() = "D"; }));
  EXPECT_TRUE(refused(decode, [](Definition& d) { d.inputs[1].shape->front() = "pages"; }));
  EXPECT_TRUE(refused(decode, [](Definition& d) { d.inputs[2].shape->back() = "R"; }));
  EXPECT_TRUE(refused(decode, [](Definition& d) { d.inputs[3].shape->pop_back(); }));
  EXPECT_TRUE(refused(decode, [](Definition& d) { d.inputs[3].shape->front() = "listed"; }));
  EXPECT_TRUE(refused(decode, [](Definition& d) { d.inputs[3].shape.reset(); }));
  EXPECT_TRUE(refused(decode, [](Definition& d) { d.inputs[3].dtype = Dtype::float8_e4m3fn; }));
  EXPECT_TRUE(refused(decode, [](Definition& d) { d.inputs[4].dtype = Dtype::int64; }));
  EXPECT_TRUE(refused(decode, [](Definition& d) { d.inputs.erase(d.inputs.begin() + 5); }));
  EXPECT_TRUE(refused(decode, [](Definition& d) { d.outputs[0].shape->back() = "R"; }));
  EXPECT_TRUE(refused(decode, [](Definition& d) { d.outputs[1].shape->front() = "pages"; }));
  EXPECT_TRUE(refused(decode, [](Definition& d) { d.outputs[1].dtype = Dtype::bfloat16; }));
  EXPECT_TRUE(refused(decode, [](Definition& d) { d.inputs.push_back({"mask", {{"queries"}}, Dtype::int32, ""}); }));
  EXPECT_TRUE(refused(ragged, [](Definition& d) { d.inputs[2].shape->front() = "queries"; }));
  EXPECT_TRUE(refused(ragged, [](Definition& d) { d.inputs[1].shape->back() = "E"; }));
  EXPECT_TRUE(refused(ragged, [](Definition& d) { d.outputs[0].shape->back() = "D"; }));
}

TEST(MlaInputs, FollowTheRulesOfGroupedQueries) {
  const GqaData latent(kPages, 5);
  const GqaData grouped({GqaKind::prefill, 3, 30, 12, 20, 16}, 5);
  // The rules count inputs, and latent attention has one more before the first index tensor.
  EXPECT_EQ(*latent.roles.qo_indptr, *grouped.roles.qo_indptr + 1);
  for (const GqaRequest& request : latent.shape.requests) EXPECT_GE(request.keys(), request.queries());
  EXPECT_EQ(latent.shape.requests.size(), 3u);
  EXPECT_EQ(latent.shape.depth, 80);
  EXPECT_EQ(latent.shape.value_depth, 64);
  EXPECT_EQ(latent.shape.group(), 4);
  // 1/sqrt of the depth before absorption, 64 / 4, and that of the position.
  EXPECT_EQ(latent.tensors[latent.roles.sm_scale].as<float>()[0], static_cast<float>(1 / std::sqrt(32.0)));
  EXPECT_EQ(GqaData(kRagged).tensors[5].as<float>()[0], static_cast<float>(1 / std::sqrt(48.0)));
}

TEST(MlaInputs, BrokenIndicesAreRefused) {
  const auto refusal = [](const GqaCase& what, const char* tensor, std::size_t index, std::int32_t value) {
    GqaData data(what);
    data.tensor(tensor).as<std::int32_t>()[index] = value;
    return data.refusal();
  };
  expect_part(refusal(kDecode, "kv_indices", 7, 90), "is page 90, but the cache has pages 0 to 89");
  expect_part(refusal(kDecode, "kv_indptr", 4, 61), "ends with 61, but there are 60 page indices");
  expect_part(refusal(kPages, "kv_last_page_len", 1, 17), "but a page holds 16 tokens");
  expect_part(refusal(kRagged, "kv_indptr", 3, 71), "but there are 70 keys");
  expect_part(refusal(kRagged, "qo_indptr", 3, 31), "but there are 30 queries");
}

TEST(ShippedProblems, MlaIsWholeAndNamedByTheRule) {
  const auto dataset = Dataset::load(*dataset_roots({}));
  ASSERT_TRUE(dataset) << dataset.error().message;
  const std::map<std::string, std::string> published = {
      {"mla_paged_decode_h16_ckv512_kpe64_ps1 batch_size=64 num_pages=989669 len_indptr=65 num_kv_indices=75145",
       "5bef8d88-0f74-4ccb-a256-b02842951df3"},
      {"mla_paged_prefill_causal_h16_ckv512_kpe64_ps1 total_q=1954 num_pages=989669 len_indptr=29 num_kv_indices=2044",
       "892d1b8f-f6fe-40ad-aa3f-b6d391753bd3"},
      {"mla_ragged_prefill_causal_h16_qk192_vo128 total_q=2885 total_kv=19013 len_indptr=64",
       "79a808fd-78a2-4cd9-a236-d8c3b018e1e4"},
  };
  int definitions = 0;
  std::size_t found = 0;
  for (const auto& [name, definition] : dataset->definitions()) {
    const auto roles = mla_roles(definition);
    EXPECT_EQ(roles.has_value(), name.starts_with("mla_")) << name;
    if (!roles) continue;
    ++definitions;
    const auto constant = [&definition = definition](const char* axis) {
      return *definition.find_axis(axis)->constant;
    };
    const std::string sizes =
        roles->paged() ? fmt::format("h{}_ckv{}_kpe{}_ps{}", constant("num_qo_heads"), constant("head_dim_ckv"),
                                     constant("head_dim_kpe"), constant("page_size"))
                       : fmt::format("h{}_qk{}_vo{}", constant("num_qo_heads"), constant("qk_dim"), constant("vo_dim"));
    EXPECT_EQ(name, fmt::format("mla_{}_{}_{}", roles->paged() ? "paged" : "ragged",
                                roles->causal ? "prefill_causal" : "decode", sizes));
    EXPECT_GE(dataset->checks(name).size(), 2u) << name;
    found += expect_shipped_requests(*dataset, definition, *roles, {published, 2e8, 16u << 20}, 1 / std::sqrt(192.0));
  }
  EXPECT_EQ(definitions, 5);
  EXPECT_EQ(found, published.size());
}

}  // namespace
}  // namespace ptxbench::problem
