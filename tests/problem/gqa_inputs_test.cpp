// The rules by which offsets and pages follow, what is refused, problems of other folders that bring their own, and the
// shipped ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <set>

#include "base/files.h"
#include "gqa_model.h"

namespace ptxbench::problem {
namespace {

std::vector<std::int32_t> values_of(const GqaData& data, std::size_t input) {
  const auto all = data.tensors[input].as<std::int32_t>().first(data.tensors[input].count);
  return {all.begin(), all.end()};
}

std::vector<std::int32_t> lengths_of(const std::vector<std::int32_t>& offsets) {
  std::vector<std::int32_t> out;
  for (std::size_t i = 1; i < offsets.size(); ++i) out.push_back(offsets[i] - offsets[i - 1]);
  return out;
}

TEST(GqaInputs, LengthsAreUnevenAndNoneIsEmpty) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const GqaData data({GqaKind::decode, 15, 15, 960, 4000}, seed);
    const auto offsets = values_of(data, data.roles.kv_indptr);
    ASSERT_EQ(offsets.size(), 16u);
    EXPECT_EQ(offsets.front(), 0);
    EXPECT_EQ(offsets.back(), 960);
    const auto lengths = lengths_of(offsets);
    EXPECT_EQ(*std::min_element(lengths.begin(), lengths.end()), 1);
    EXPECT_GE(*std::max_element(lengths.begin(), lengths.end()), 240);
    EXPECT_GE(std::set<std::int32_t>(lengths.begin(), lengths.end()).size(), 8u);
  }
}

TEST(GqaInputs, FewerKeysThanRequestsLeaveSomeEmpty) {
  std::set<std::vector<std::int32_t>> seen;
  for (std::uint64_t seed = 0; seed < 16; ++seed) {
    const GqaData data({GqaKind::decode, 5, 5, 3, 9}, seed);
    const auto lengths = lengths_of(values_of(data, data.roles.kv_indptr));
    EXPECT_EQ(std::count(lengths.begin(), lengths.end(), 1), 3);
    EXPECT_EQ(std::count(lengths.begin(), lengths.end(), 0), 2);
    seen.insert(lengths);
  }
  EXPECT_GE(seen.size(), 4u) << "not always the same ones";
}

TEST(GqaInputs, PagesAreDistinctAndNotInOrder) {
  for (std::uint64_t seed = 0; seed < 32; ++seed) {
    for (const auto& [listed, pages] :
         {std::pair<std::int64_t, std::int64_t>{500, 700}, {64, 64}, {3, 4}, {2, 2}, {1, 3}}) {
      const GqaData data({GqaKind::decode, 1, 1, listed, pages, 1, 2, 1, 16}, seed);
      const auto indices = values_of(data, *data.roles.kv_indices);
      const std::set<std::int32_t> distinct(indices.begin(), indices.end());
      EXPECT_EQ(distinct.size(), indices.size());
      EXPECT_GE(*distinct.begin(), 0);
      EXPECT_LT(*distinct.rbegin(), pages);
      if (listed > 1) {
        EXPECT_FALSE(std::is_sorted(indices.begin(), indices.end())) << listed << " of " << pages;
      } else {
        EXPECT_NE(indices[0], 0);
      }
    }
  }
  // More than there are: requests share pages.
  const GqaData shared({GqaKind::decode, 4, 4, 40, 7});
  for (const std::int32_t page : values_of(shared, *shared.roles.kv_indices)) EXPECT_TRUE(page >= 0 && page < 7);
}

TEST(GqaInputs, PrefillHasRoomForItsOwnTokens) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    for (const GqaCase& what :
         {GqaCase{GqaKind::prefill, 4, 90, 150, 200}, GqaCase{GqaKind::prefill, 4, 90, 12, 20, 16},
          GqaCase{GqaKind::ragged, 4, 90, 200}, GqaCase{GqaKind::ragged, 4, 90, 90}}) {
      const GqaData data(what, seed);
      ASSERT_EQ(data.shape.requests.size(), 4u);
      bool longer = false;
      for (const GqaRequest& request : data.shape.requests) {
        EXPECT_GE(request.queries(), 1);
        EXPECT_GE(request.keys(), request.queries()) << what.name();
        longer = longer || request.keys() > request.queries();
      }
      EXPECT_EQ(longer, what.listed != 90) << what.name();
    }
  }
}

TEST(GqaInputs, LastPagesHoldOneTokenToAll) {
  std::set<std::int32_t> seen;
  for (std::uint64_t seed = 0; seed < 16; ++seed) {
    const GqaData data({GqaKind::decode, 6, 6, 30, 40, 8}, seed);
    const auto last = values_of(data, *data.roles.kv_last_page_len);
    for (std::size_t i = 0; i < 6; ++i) {
      EXPECT_TRUE(last[i] >= 1 && last[i] <= 8) << last[i];
      seen.insert(last[i]);
    }
  }
  EXPECT_EQ(seen.size(), 8u);
}

TEST(GqaInputs, FollowFromTheSeedAlone) {
  const GqaCase what{GqaKind::prefill, 4, 90, 12, 20, 16};
  const GqaData one(what, 5), same(what, 5), other(what, 6);
  for (const auto& input :
       {std::optional(one.roles.kv_indptr), one.roles.qo_indptr, one.roles.kv_indices, one.roles.kv_last_page_len}) {
    EXPECT_EQ(values_of(one, *input), values_of(same, *input));
    EXPECT_NE(values_of(one, *input), values_of(other, *input));
    InputOptions options;
    options.seed = 5;
    const auto alone = make_input(one.problem, *input, options);
    ASSERT_TRUE(alone);
    EXPECT_EQ(std::memcmp(alone->data(), one.tensors[*input].data(), alone->bytes()), 0);
  }
  EXPECT_EQ(one.tensors[one.roles.sm_scale].as<float>()[0], 0.125f) << "1/sqrt(64)";
}

/// Inputs of a case with one tensor changed.
std::string refusal(const GqaCase& what, const char* tensor,
                    const std::function<void(std::span<std::int32_t>)>& change) {
  GqaData data(what);
  Tensor& input = data.tensor(tensor);
  change(input.as<std::int32_t>().first(input.count));
  return data.refusal();
}

// Short lists of pages that many requests share, or large pages, must not become lists of billions of keys.
TEST(GqaInputs, MoreKeysThanAnyCacheHasAreRefused) {
  for (const std::int64_t page_size : {std::int64_t{1} << 25, std::int64_t{1} << 40}) {
    GqaCase what{GqaKind::decode, 2, 2, 16, 1, page_size};
    what.depth = 0;  // so that the cache itself takes no memory
    Problem problem = gqa_problem(what);
    for (const char* given : {"sm_scale"}) problem.workload.inputs.emplace_back(given, ScalarInput{0.5});
    const auto inputs = make_inputs(problem, {});
    ASSERT_FALSE(inputs);
    EXPECT_NE(inputs.error().message.find("more than 268435456 keys"), std::string::npos) << inputs.error().message;
  }
}

TEST(GqaInputs, MultiplyAddsAreThoseOfTheInputs) {
  const GqaData one({GqaKind::prefill, 4, 90, 150, 200}, 1), other({GqaKind::prefill, 4, 90, 150, 200}, 2);
  EXPECT_EQ(required_multiply_adds(one.problem, one.tensors), one.shape.multiply_adds());
  EXPECT_EQ(required_multiply_adds(other.problem, other.tensors), other.shape.multiply_adds());
  EXPECT_NE(one.shape.multiply_adds(), other.shape.multiply_adds());
}

TEST(GqaInputs, BrokenIndicesAreRefused) {
  const GqaCase paged{GqaKind::prefill, 4, 90, 12, 20, 16}, decode{GqaKind::decode, 5, 5, 40, 60};
  const auto set = [](std::size_t index, std::int32_t value) {
    return [=](std::span<std::int32_t> values) { values[index] = value; };
  };
  expect_part(refusal(paged, "kv_indptr", set(0, 1)), "kv_indptr begins with 1, not 0");
  expect_part(refusal(paged, "kv_indptr", set(0, -1)), "kv_indptr begins with -1");
  expect_part(refusal(paged, "kv_indptr", set(4, 11)), "kv_indptr");
  expect_part(refusal(paged, "kv_indptr", set(4, 2000000000)), "ends with 2000000000, but there are 12 page indices");
  expect_part(refusal(paged, "kv_indptr", set(2, -5)), "kv_indptr decreases");
  expect_part(refusal(paged, "qo_indptr", set(3, 91)), "qo_indptr decreases from 91 to 90 at element 4");
  expect_part(refusal(paged, "qo_indptr", set(4, 99)), "but there are 90 queries");
  expect_part(refusal(paged, "kv_indices", set(7, 20)),
              "element 7 of kv_indices is page 20, but the cache has pages 0 to 19");
  expect_part(refusal(paged, "kv_indices", set(0, -1)), "page -1");
  expect_part(refusal(paged, "kv_last_page_len", set(1, 17)), "element 1 of kv_last_page_len is 17");
  expect_part(refusal(paged, "kv_last_page_len", set(0, -1)), "kv_last_page_len is -1");
  expect_part(refusal(decode, "kv_indptr", set(5, 41)), "ends with 41");
  EXPECT_EQ(refusal(paged, "kv_last_page_len", set(4, 1000)), "") << "one more than there are requests";
  EXPECT_EQ(refusal(paged, "kv_indices", set(7, 19)), "");

  // Axes that do not go together.
  GqaCase what = decode;
  Problem problem = gqa_problem(what);
  problem.workload.axes[1].second = 9;
  problem = *make_problem(problem.definition, problem.workload);
  const auto made = make_inputs(problem, {});
  ASSERT_FALSE(made);
  expect_part(made.error().message, "kv_indptr has 9 offsets, but 5 requests need 6");
  EXPECT_FALSE(required_multiply_adds(problem));

  // Random numbers are no offsets, and no scale may be negative.
  problem = gqa_problem(decode);
  problem.workload.inputs = {{"kv_indptr", RandomInput{}}};
  EXPECT_FALSE(make_inputs(problem, {}));
  for (const double scale : {-1.0, 0.0}) {
    problem.workload.inputs = {{"sm_scale", ScalarInput{scale}}};
    const auto refused = make_inputs(problem, {});
    ASSERT_FALSE(refused);
    expect_part(refused.error().message, "sm_scale");
  }
  problem.workload.inputs = {{"sm_scale", ScalarInput{0.5}}};
  EXPECT_TRUE(make_inputs(problem, {}));
}

// As published: offsets and pages in a safetensors file.
TEST(GqaInputs, StoredIndicesAreTakenAndChecked) {
  const auto folder = *base::TempDir::create();
  const GqaCase what{GqaKind::decode, 3, 3, 6, 10};
  const auto write = [&](const std::vector<std::int32_t>& indptr, const std::vector<std::int32_t>& indices) {
    std::ofstream out(folder.path() / "b.safetensors", std::ios::binary);
    const std::string header =
        R"({"kv_indptr":{"dtype":"I32","shape":[4],"data_offsets":[0,16]},"kv_indices":{"dtype":"I32","shape":[6],"data_offsets":[16,40]}})";
    const std::uint64_t length = header.size();
    out.write(reinterpret_cast<const char*>(&length), 8);
    out << header;
    out.write(reinterpret_cast<const char*>(indptr.data()), 16);
    out.write(reinterpret_cast<const char*>(indices.data()), 24);
  };
  Problem problem = gqa_problem(what);
  problem.workload.root = folder.path().string();
  for (const char* name : {"kv_indptr", "kv_indices"}) {
    problem.workload.inputs.emplace_back(name, SafetensorsInput{"./b.safetensors", name});
  }
  write({0, 2, 2, 6}, {9, 3, 0, 1, 2, 4});
  const auto inputs = make_inputs(problem, {});
  ASSERT_TRUE(inputs) << inputs.error().message;
  const auto shape = request_shape(request_for(problem, *inputs), *gqa_roles(problem.definition));
  ASSERT_TRUE(shape);
  EXPECT_EQ(shape->slots, (std::vector<std::int64_t>{9, 3, 0, 1, 2, 4}));
  EXPECT_EQ(shape->requests[1].keys(), 0);
  EXPECT_EQ(*required_multiply_adds(problem), 2.0 * 6 * 6 * 64);

  write({0, 2, 2, 7}, {9, 3, 0, 1, 2, 4});
  EXPECT_NE(make_inputs(problem, {}).error().message.find("ends with 7"), std::string::npos);
  write({0, 2, 2, 6}, {9, 3, 10, 1, 2, 4});
  EXPECT_NE(make_inputs(problem, {}).error().message.find("page 10"), std::string::npos);
}

TEST(ShippedProblems, GqaIsWholeAndNamedByTheRule) {
  const auto dataset = Dataset::load(*dataset_roots({}));
  ASSERT_TRUE(dataset) << dataset.error().message;
  const std::map<std::string, std::string> published = {
      {"gqa_paged_decode_h24_kv8_d128_ps1 batch_size=15 num_pages=42784 len_indptr=16 num_kv_indices=9625",
       "12e644fb-9783-46be-9763-f69561dfc700"},
      {"gqa_paged_prefill_causal_h24_kv8_d128_ps1 len_indptr=2 total_q=892 num_kv_indices=892 num_pages=43676",
       "2bcc7cdd-53db-4da4-844f-07ff4f3439b6"},
      {"gqa_ragged_prefill_causal_h32_kv4_d128 len_indptr=34 total_q=16294 total_kv=16294",
       "007ddabb-3c8c-48a1-a693-c0618d32243c"},
      {"gqa_ragged_prefill_causal_h32_kv4_d128 len_indptr=28 total_q=12251 total_kv=12251",
       "5c51d2e8-4c3e-42db-8f9c-73c09ab81e29"},
      {"gqa_ragged_prefill_causal_h32_kv4_d128 len_indptr=16 total_q=969 total_kv=969",
       "b3445888-8668-4721-9359-9da119ab9f34"},
      {"gqa_ragged_prefill_causal_h32_kv4_d128 len_indptr=4 total_q=172 total_kv=172",
       "1f97930e-1a06-4e84-9875-09a22fff8a7c"},
      {"gqa_paged_decode_h32_kv8_d128_ps1 batch_size=16 num_pages=2708 len_indptr=17 num_kv_indices=2681",
       "39ca5ed6-85af-4435-a3aa-05933a316ac1"},
      {"gqa_paged_decode_h32_kv8_d128_ps1 batch_size=16 num_pages=1220 len_indptr=17 num_kv_indices=1193",
       "cd36924a-dd24-4898-b4a6-d7cb6c62a52a"},
      {"gqa_paged_decode_h32_kv8_d128_ps1 batch_size=1 num_pages=9316 len_indptr=2 num_kv_indices=73",
       "e2142798-a0ce-49dd-9eaa-72727ad69f0f"},
      {"gqa_paged_prefill_causal_h32_kv8_d128_ps1 len_indptr=2 total_q=1 num_kv_indices=34 num_pages=51",
       "25f2945c-c282-47a9-ac12-bbc702a218f4"},
  };
  int decode = 0, prefill = 0, ragged = 0;
  std::size_t found = 0;
  for (const auto& [name, definition] : dataset->definitions()) {
    const auto roles = gqa_roles(definition);
    if (!roles) {
      EXPECT_FALSE(name.starts_with("gqa_")) << name;
      continue;
    }
    ++(!roles->paged() ? ragged : roles->qo_indptr ? prefill : decode);
    const auto constant = [&definition = definition](const char* axis) {
      return *definition.find_axis(axis)->constant;
    };
    const std::string sizes =
        fmt::format("h{}_kv{}_d{}", constant("num_qo_heads"), constant("num_kv_heads"), constant("head_dim"));
    EXPECT_EQ(name, !roles->paged() ? "gqa_ragged_prefill_causal_" + sizes
                                    : fmt::format("gqa_paged_{}{}_ps{}", roles->causal ? "prefill_causal_" : "decode_",
                                                  sizes, constant("page_size")));
    found += expect_shipped_requests(*dataset, definition, *roles, {published, 5e8, 16u << 20}, 1 / std::sqrt(128.0));
    const auto& few = dataset->checks(name);
    EXPECT_TRUE(std::any_of(few.begin(), few.end(),
                            [](const Workload& workload) {
                              const auto* scale = std::get_if<ScalarInput>(workload.find_input("sm_scale"));
                              return scale != nullptr &&
                                     std::fabs(std::get<double>(scale->value) * std::sqrt(128.0) - 1) > 0.1;
                            }))
        << name << ": a kernel with a scale of its own must fail one of them";
  }
  EXPECT_EQ(decode, 4);
  EXPECT_EQ(prefill, 3);
  EXPECT_EQ(ragged, 3);
  EXPECT_EQ(found, published.size());
}

TEST(References, GqaIsFoundByStructure) {
  const Definition decode = gqa_definition({GqaKind::decode}), prefill = gqa_definition({GqaKind::prefill});
  const Definition ragged = gqa_definition({GqaKind::ragged});
  EXPECT_FALSE(gqa_roles(decode)->causal);
  EXPECT_TRUE(gqa_roles(prefill)->causal);
  EXPECT_TRUE(gqa_roles(ragged)->causal);
  EXPECT_FALSE(gqa_roles(ragged)->paged());
  EXPECT_TRUE(gqa_roles(gqa_definition({GqaKind::prefill, 1, 1, 1, 1, 16}))->kv_last_page_len);
  Definition other = prefill;
  std::swap(other.inputs[0], other.inputs[3]);
  EXPECT_EQ(gqa_roles(other)->q, 3u) << "the order of the call is free";
  for (const char* name : {"g", "g_non_causal", "g_noncausal", "g_causality", "acausal", "non_causal_h4"}) {
    other.name = name;
    EXPECT_FALSE(gqa_roles(other)->causal) << name;
  }
  for (const char* name : {"causal", "g_causal", "g_causal_h4"}) {
    other.name = name;
    EXPECT_TRUE(gqa_roles(other)->causal) << name;
  }
  other.name = "g";
  other.tags.push_back("mask:causal");
  EXPECT_TRUE(gqa_roles(other)->causal);
  EXPECT_TRUE(refused(decode, [](Definition& d) { d.op_type = "gqa_ragged"; }));
  EXPECT_TRUE(refused(ragged, [](Definition& d) { d.op_type = "gqa_paged"; }));
  EXPECT_TRUE(refused(decode, [](Definition& d) { d.op_type = "mla_paged"; }));
  EXPECT_TRUE(refused(decode, [](Definition& d) { d.inputs[0].name = "Q"; }));
  EXPECT_TRUE(refused(decode, [](Definition& d) { d.inputs[3].dtype = Dtype::int64; }));
  EXPECT_TRUE(refused(decode, [](Definition& d) { d.inputs[1].dtype = Dtype::float8_e4m3fn; }));
  EXPECT_TRUE(refused(decode, [](Definition& d) { d.inputs[5].shape = {{"queries"}}; }));
  EXPECT_TRUE(refused(decode, [](Definition& d) { d.outputs[1].shape = {{"qo_heads", "queries"}}; }));
  EXPECT_TRUE(refused(decode, [](Definition& d) { d.outputs.pop_back(); }));
  EXPECT_TRUE(refused(decode, [](Definition& d) { d.inputs.push_back({"mask", {{"queries"}}, Dtype::int32, ""}); }));
  EXPECT_TRUE(refused(ragged, [](Definition& d) { d.inputs.erase(d.inputs.begin() + 3); }));
}

}  // namespace
}  // namespace ptxbench::problem
