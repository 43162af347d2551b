#include "problem/dataset.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <map>

#include "base/files.h"
#include "problem/attention.h"
#include "problem/fp8_gemm.h"
#include "problem/gemm.h"
#include "problem/reference.h"
#include "test_support.h"

namespace ptxbench::problem {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDefinition =
    R"({"name":"d","op_type":"gemm","axes":{"M":{"type":"var"},"N":{"type":"const","value":32},
 "K":{"type":"const","value":16}},"inputs":{"A":{"shape":["M","K"],"dtype":"bfloat16"},"B":{"shape":["N","K"],"dtype":"bfloat16"}},
 "outputs":{"C":{"shape":["M","N"],"dtype":"bfloat16"}},"reference":"def run(A, B): ..."})";

std::string line(const std::string& uuid, int m) {
  return R"({"definition":"d","solution":null,"workload":{"uuid":")" + uuid + R"(","axes":{"M":)" + std::to_string(m) +
         R"(},"inputs":{"A":{"type":"random"}}},"evaluation":null})" + "\n";
}

class DatasetTest : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    const fs::path file = folder_.path() / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  Result<Dataset> load(std::initializer_list<const char*> roots) {
    std::vector<fs::path> paths;
    for (const char* root : roots) paths.push_back(folder_.path() / root);
    return Dataset::load(paths);
  }
  std::string load_error(std::initializer_list<const char*> roots) {
    const auto dataset = load(roots);
    return dataset ? "" : dataset.error().message;
  }
  base::TempDir folder_ = *base::TempDir::create();
};

TEST_F(DatasetTest, LoadsFoldersRecursively) {
  write("r/definitions/gemm/deep/d.json", kDefinition);
  write("r/workloads/gemm/d.jsonl", line("aaaa-1", 8) + "\n" + line("aabb-2", 64));
  const auto dataset = load({"r"});
  ASSERT_TRUE(dataset) << dataset.error().message;
  const auto definition = dataset->find_definition("d");
  ASSERT_TRUE(definition);
  EXPECT_EQ(dataset->workloads("d").size(), 2u) << "blank lines are skipped";
  EXPECT_EQ((*dataset->find_workload(**definition, "aabb"))->axes[0].second, 64);
  EXPECT_FALSE(dataset->find_workload(**definition, "aab")) << "too short a prefix";
  EXPECT_FALSE(dataset->find_workload(**definition, "zzzz"));
  EXPECT_EQ(dataset->find_workload("aaaa-1")->first->name, "d");
  EXPECT_EQ((*dataset->largest_workload(**definition))->uuid, "aabb-2");
  EXPECT_EQ((*dataset->smallest_workload(**definition))->uuid, "aaaa-1");
  EXPECT_NE(dataset->find_definition("e").error().message.find("problems"), std::string::npos);
}

TEST_F(DatasetTest, AmbiguousPrefixIsAnError) {
  write("r/definitions/d.json", kDefinition);
  write("r/workloads/d.jsonl", line("aaaa-1", 8) + line("aaaa-2", 64));
  const auto dataset = load({"r"});
  const auto found = dataset->find_workload(**dataset->find_definition("d"), "aaaa");
  ASSERT_FALSE(found);
  EXPECT_NE(found.error().message.find("several"), std::string::npos);
}

TEST_F(DatasetTest, WrongFoldersFail) {
  EXPECT_NE(load_error({"missing"}).find("no such folder"), std::string::npos);
  fs::create_directories(folder_.path() / "empty");
  EXPECT_NE(load_error({"empty"}).find("definitions/"), std::string::npos);
}

TEST_F(DatasetTest, BrokenFilesAreNamedWithTheirLine) {
  write("r/definitions/d.json", kDefinition);
  write("r/workloads/d.jsonl", line("a", 8) + "{broken\n");
  EXPECT_NE(load_error({"r"}).find("d.jsonl:2"), std::string::npos) << load_error({"r"});
  write("r/workloads/d.jsonl", line("a", 8) + R"({"definition":"d","workload":{"uuid":"b","axes":{"M":"x"}}})" + "\n");
  EXPECT_NE(load_error({"r"}).find("d.jsonl:2.workload.axes.M"), std::string::npos) << load_error({"r"});
  write("r/definitions/d.json", "[");
  EXPECT_NE(load_error({"r"}).find("d.json"), std::string::npos);
}

TEST_F(DatasetTest, DuplicatesWithinARootAreErrors) {
  write("r/definitions/d.json", kDefinition);
  write("r/definitions/e.json", kDefinition);
  EXPECT_NE(load_error({"r"}).find("unique"), std::string::npos);
  fs::remove(folder_.path() / "r/definitions/e.json");
  write("r/workloads/d.jsonl", line("a", 8));
  write("r/workloads/e.jsonl", line("a", 8));
  EXPECT_NE(load_error({"r"}).find("uuids must be unique"), std::string::npos);
}

TEST_F(DatasetTest, SecondRootsAddAndMayRepeat) {
  write("r/definitions/d.json", kDefinition);
  write("r/workloads/d.jsonl", line("a", 8));
  write("s/definitions/d.json", kDefinition);
  write(
      "s/workloads/d.jsonl",
      line("a", 8) +
          R"({"definition":"d","workload":{"uuid":"b","axes":{"M":9},"inputs":{"A":{"type":"safetensors","path":"blob/x","tensor_key":"A"}}}})"
          "\n");
  const auto dataset = load({"r", "s"});
  ASSERT_TRUE(dataset) << dataset.error().message;
  ASSERT_EQ(dataset->workloads("d").size(), 2u);
  EXPECT_TRUE(fs::path(std::get<SafetensorsInput>(*dataset->workloads("d")[1].find_input("A")).path).is_absolute());

  write("s/workloads/d.jsonl", line("a", 16));
  EXPECT_NE(load_error({"r", "s"}).find("differs"), std::string::npos);
  fs::remove(folder_.path() / "s/workloads/d.jsonl");
  std::string other = kDefinition;
  other.replace(other.find("\"value\":32"), 10, "\"value\":64");
  write("s/definitions/d.json", other);
  EXPECT_NE(load_error({"r", "s"}).find("differs"), std::string::npos);
}

TEST_F(DatasetTest, AxesMakeAWorkload) {
  write("r/definitions/d.json", kDefinition);
  write("r/workloads/d.jsonl", line("stored", 8));
  const auto dataset = load({"r"});
  const Definition& definition = **dataset->find_definition("d");
  EXPECT_EQ(dataset->workload_for_axes(definition, {"M=8"})->uuid, "stored");
  const auto made = dataset->workload_for_axes(definition, {"M=24"});
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_TRUE(made->ad_hoc);
  EXPECT_EQ(made->uuid, uuid5_url("ptxbench://d/M=24"));
  EXPECT_EQ(made->uuid, dataset->workload_for_axes(definition, {"M=24", "K=16"})->uuid);
  const auto message = [&](const std::vector<std::string>& axes) {
    return dataset->workload_for_axes(definition, axes).error().message;
  };
  EXPECT_NE(message({"m=24"}).find("did you mean 'M'"), std::string::npos);
  EXPECT_NE(message({"M=24", "N=64"}).find("constant"), std::string::npos);
  EXPECT_NE(message({"M=-1"}).find("'-1'"), std::string::npos);
  EXPECT_NE(message({"M"}).find("NAME=N"), std::string::npos);
  EXPECT_NE(message({"M=0"}).find("positive"), std::string::npos);
  EXPECT_NE(message({"M=1", "M=2"}).find("twice"), std::string::npos);
  EXPECT_NE(message({}).find("--axis M"), std::string::npos);
  EXPECT_FALSE(dataset->workload_for_axes(definition, {"M=99999999999999999999"}));

  const auto huge = make_problem(definition, *dataset->workload_for_axes(definition, {"M=1099511627776"}));
  EXPECT_TRUE(huge) << "large but addressable";
}

TEST_F(DatasetTest, ChecksAndAxesMayChangeBatchAxes) {
  std::string text = kDefinition;
  text.insert(text.size() - 1, R"(,"tags":["batch-axis:N"])");
  write("r/definitions/d.json", text);
  write("r/workloads/d.jsonl", line("stored", 8));
  std::string check = line("check", 4);
  check.replace(check.find("\"M\":4"), 5, R"("N":2,"M":4)");
  write("r/checks/d.jsonl", check);
  const auto dataset = load({"r"});
  ASSERT_TRUE(dataset) << dataset.error().message;
  const Definition& definition = **dataset->find_definition("d");
  EXPECT_EQ(dataset->workloads("d").size(), 1u);
  ASSERT_EQ(dataset->checks("d").size(), 1u);
  EXPECT_EQ((*dataset->find_workload(definition, "check"))->uuid, "check");
  EXPECT_EQ(dataset->find_workload("check")->first->name, "d");
  EXPECT_EQ((*dataset->smallest_workload(definition))->uuid, "check");
  EXPECT_EQ((*dataset->largest_workload(definition))->uuid, "stored");
  const auto usual = dataset->default_workloads(definition);
  ASSERT_TRUE(usual);
  ASSERT_EQ(usual->size(), 1u);
  EXPECT_EQ((*usual)[0]->uuid, "check");

  const auto problem = make_problem(definition, dataset->checks("d")[0]);
  ASSERT_TRUE(problem) << problem.error().message;
  EXPECT_EQ(problem->output_shapes[0], (Shape{4, 2}));
  EXPECT_EQ(problem->title(), "d M=4 N=2");
  EXPECT_EQ(dataset->workload_for_axes(definition, {"M=4", "N=2"})->uuid, "check");
  EXPECT_EQ(dataset->workload_for_axes(definition, {"M=8", "N=32"})->uuid, "stored");
  const auto made = dataset->workload_for_axes(definition, {"N=3", "M=4"});
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->uuid, uuid5_url("ptxbench://d/M=4/N=3"));
  EXPECT_TRUE(make_problem(definition, *made));
  EXPECT_FALSE(dataset->workload_for_axes(definition, {"N=0", "M=4"}));
  EXPECT_NE(dataset->workload_for_axes(definition, {"M=4", "K=8"}).error().message.find("constant"), std::string::npos);

  // Such a workload among the published ones would be another problem under the definition's name.
  write("r/workloads/d.jsonl", check);
  fs::remove(folder_.path() / "r/checks/d.jsonl");
  const auto misplaced = load({"r"});
  ASSERT_TRUE(misplaced);
  const auto refused = make_problem(definition, misplaced->workloads("d")[0]);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("batch axis N"), std::string::npos) << refused.error().message;
}

TEST_F(DatasetTest, AWorkloadIsNotAlsoACheck) {
  write("r/definitions/d.json", kDefinition);
  write("r/workloads/d.jsonl", line("a", 8));
  write("r/checks/d.jsonl", line("a", 8));
  EXPECT_NE(load_error({"r"}).find("uuids must be unique"), std::string::npos) << load_error({"r"});
}

TEST_F(DatasetTest, ProblemsAreValidated) {
  write("r/definitions/d.json", kDefinition);
  const auto dataset = load({"r"});
  const Definition& definition = **dataset->find_definition("d");
  Workload workload = *dataset->workload_for_axes(definition, {"M=4"});
  const auto problem = make_problem(definition, workload);
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->title(), "d M=4");
  EXPECT_EQ(problem->input_shapes[1], (Shape{32, 16}));
  EXPECT_EQ(problem->tensor_bytes, 2u * (4 * 16 + 32 * 16 + 4 * 32));
  EXPECT_EQ(*required_multiply_adds(*problem), 4.0 * 32 * 16);
  workload.inputs.emplace_back("X", RandomInput{});
  EXPECT_FALSE(make_problem(definition, workload));
  workload.inputs.back() = {"A", ScalarInput{1.0}};
  EXPECT_FALSE(make_problem(definition, workload));
  workload.inputs.back() = {"A", DerivedInput{}};
  EXPECT_NE(make_problem(definition, workload).error().message.find("no rule"), std::string::npos);
}

TEST(ShippedProblems, AreWholeAndNamedByTheRule) {
  const auto roots = dataset_roots({});
  ASSERT_TRUE(roots);
  const auto dataset = Dataset::load(*roots);
  ASSERT_TRUE(dataset) << dataset.error().message;
  int gemms = 0;
  for (const auto& [name, definition] : dataset->definitions()) {
    ASSERT_FALSE(dataset->workloads(name).empty()) << name;
    const auto roles = gemm_roles(definition);
    if (!roles) continue;
    ++gemms;
    EXPECT_EQ(name,
              fmt::format("gemm_n{}_k{}", *definition.find_axis("N")->constant, *definition.find_axis("K")->constant));
    EXPECT_TRUE(find_reference(definition));
    bool odd = false;
    for (const Workload& workload : dataset->workloads(name)) {
      ASSERT_TRUE(make_problem(definition, workload));
      const std::int64_t m = workload.axes[0].second;
      odd = odd || m % 64 != 0;
      const bool published = name == "gemm_n7168_k5120" && m == 8192;
      EXPECT_EQ(workload.uuid, published ? "94920358-01a8-4c5b-9209-3103fd490e94"
                                         : uuid5_url(fmt::format("ptxbench://{}/M={}", name, m)));
    }
    EXPECT_TRUE(odd) << name << " needs a workload that is no multiple of a tile";
  }
  EXPECT_EQ(gemms, 17);
}

TEST(ShippedProblems, AttentionIsWholeAndNamedByTheRule) {
  const auto dataset = Dataset::load(*dataset_roots({}));
  ASSERT_TRUE(dataset) << dataset.error().message;
  const std::map<std::string, std::string> published = {
      {"mha_with_lse_d64", "7d2575a0-bcc2-42a0-812f-6a7e9a57d97f"},
      {"mha_with_lse_d64_causal", "b69f7675-568f-40f2-9a4b-8bbe374b4a59"},
      {"mha_with_lse_d96", "e86112ff-2cd0-4e97-8efb-9ce6356ecb2b"},
      {"mha_with_lse_d96_causal", "982c9922-961f-452f-ab9e-574fdcd4e28c"},
      {"mha_with_lse_d128", "bc38b351-d595-451b-9153-8e225702e53b"},
      {"mha_with_lse_d128_causal", "6d2f67a7-225a-4af5-87d3-cbb99b496325"},
      {"mha_bwd_d64", "d3bcb902-6a13-5ada-9251-fa841b10cd0b"},
      {"mha_bwd_d64_causal", "5799ea50-77aa-56cb-9f62-a4c1f5473770"},
      {"mha_bwd_d96", "082481a9-4a67-5c62-8093-560bb80e4c24"},
      {"mha_bwd_d96_causal", "3a45eb5c-3362-5705-bd42-80324d26a471"},
      {"mha_bwd_d128", "38c3b07c-f006-5f5e-9860-ba214c805a6b"},
      {"mha_bwd_d128_causal", "c119b3f0-c051-5e96-9c2a-2268d992fe1a"},
  };
  int forward = 0, backward = 0;
  for (const auto& [name, definition] : dataset->definitions()) {
    const auto roles = attention_roles(definition);
    if (!roles || roles->descales) continue;
    ++(roles->backward ? backward : forward);
    EXPECT_EQ(name, fmt::format("mha_{}_d{}{}", roles->backward ? "bwd" : "with_lse",
                                *definition.find_axis(roles->depth)->constant, roles->causal ? "_causal" : ""));
    EXPECT_EQ(roles->depth, roles->backward ? "d" : "D");
    EXPECT_TRUE(find_reference(definition));
    for (std::size_t i = 0; i < definition.outputs.size(); ++i) EXPECT_TRUE(limits_for(definition, i));
    std::vector<std::int64_t> sizes;
    for (const Workload& workload : dataset->workloads(name)) {
      const auto problem = make_problem(definition, workload);
      ASSERT_TRUE(problem) << problem.error().message;
      const std::int64_t s = problem->axes.at("S");
      sizes.push_back(s);
      EXPECT_EQ(problem->input_shapes[0], (Shape{4, 48, s, problem->axes.at(roles->depth)}));
      // Twice the multiply-adds are the published count of operations.
      const double products = (roles->backward ? 10.0 : 4.0) / (roles->causal ? 2 : 1);
      EXPECT_EQ(2 * *required_multiply_adds(*problem),
                products * static_cast<double>(s * s * problem->axes.at(roles->depth) * 4 * 48));
      const auto known = published.find(name);
      const std::string made = uuid5_url(fmt::format("{}://{}/S={}", roles->backward ? "accrl" : "ptxbench", name, s));
      EXPECT_EQ(workload.uuid, s == 4096 && known != published.end() ? known->second : made);
    }
    EXPECT_EQ(sizes, (std::vector<std::int64_t>{512, 1024, 2048, 4096, 8192, 16384}));
    bool odd = false;
    for (const Workload& check : dataset->checks(name)) {
      const auto problem = make_problem(definition, check);
      ASSERT_TRUE(problem) << problem.error().message;
      EXPECT_LT(*required_multiply_adds(*problem), 1e9) << "checks are quick";
      odd = odd || problem->axes.at("S") % 128 != 0;
      EXPECT_EQ(check.uuid, uuid5_url(fmt::format("ptxbench://{}/B={}/H={}/S={}", name, problem->axes.at("B"),
                                                  problem->axes.at("H"), problem->axes.at("S"))));
    }
    EXPECT_TRUE(odd) << name << " needs a check that is no multiple of a tile";
  }
  EXPECT_EQ(forward, 8);
  EXPECT_EQ(backward, 6);
}

TEST(ShippedProblems, Fp8IsWholeAndNamedByTheRule) {
  const auto dataset = Dataset::load(*dataset_roots({}));
  ASSERT_TRUE(dataset) << dataset.error().message;
  int forward = 0, blocks = 0, rows = 0;
  for (const auto& [name, definition] : dataset->definitions()) {
    const auto attention = attention_roles(definition);
    const auto gemm = fp8_gemm_roles(definition);
    if (gemm) {
      ++(gemm->blocks_of_b ? blocks : rows);
      EXPECT_EQ(name, fmt::format("fp8_gemm_nt_{}_n{}_k{}", gemm->blocks_of_b ? "1d2d" : "1d1d",
                                  *definition.find_axis("N")->constant, *definition.find_axis("K")->constant));
      EXPECT_EQ(definition.outputs[0].dtype, gemm->blocks_of_b ? Dtype::bfloat16 : Dtype::float32);
    } else if (attention && attention->descales) {
      ++forward;
      EXPECT_EQ(name, fmt::format("mha_fp8_with_lse_d{}{}", *definition.find_axis("D")->constant,
                                  attention->causal ? "_causal" : ""));
    } else {
      EXPECT_EQ(name.find("fp8"), std::string::npos) << name << " has no reference";
      continue;
    }
    EXPECT_TRUE(find_reference(definition));
    for (std::size_t i = 0; i < definition.outputs.size(); ++i) EXPECT_TRUE(limits_for(definition, i));
    bool odd = false, full = false;
    const auto examine = [&, &definition = definition](const Workload& workload) {
      const auto problem = make_problem(definition, workload);
      ASSERT_TRUE(problem) << problem.error().message;
      const std::int64_t size = problem->axes.at(gemm ? "M" : "S");
      odd = odd || size % 128 != 0;
      full = full || size == 4096;
      EXPECT_EQ(workload.uuid, own_uuid(definition, workload));
      for (std::size_t i = 0; i < definition.inputs.size(); ++i) {
        EXPECT_EQ(std::holds_alternative<DerivedInput>(source_of(*problem, i)),
                  definition.inputs[i].dtype == Dtype::float32);
      }
      EXPECT_TRUE(!workload.check || *required_multiply_adds(*problem) < 1e9) << "checks are quick";
    };
    for (const Workload& workload : dataset->workloads(name)) examine(workload);
    for (const Workload& check : dataset->checks(name)) examine(check);
    EXPECT_TRUE(odd) << name << " needs a size that is no multiple of a tile";
    EXPECT_TRUE(full) << name;
    EXPECT_EQ(dataset->checks(name).empty(), gemm.has_value());
  }
  EXPECT_EQ(forward, 8);
  EXPECT_EQ(blocks, 6);
  EXPECT_EQ(rows, 6);
}

TEST(References, AttentionIsFoundByStructure) {
  const auto dataset = Dataset::load(*dataset_roots({}));
  ASSERT_TRUE(dataset);
  Definition forward = **dataset->find_definition("mha_with_lse_d128_causal");
  EXPECT_TRUE(attention_roles(forward)->causal);
  std::swap(forward.inputs[0], forward.inputs[2]);
  EXPECT_EQ(attention_roles(forward)->q, 2u) << "the order of the call is free";
  forward.tags.clear();
  EXPECT_TRUE(attention_roles(forward)->causal) << "by its name";
  forward.name = "other";
  EXPECT_FALSE(attention_roles(forward)->causal);
  EXPECT_FALSE(is_derived(forward, 0));
  const auto refused = [&](auto change) {
    Definition changed = forward;
    change(changed);
    return !find_reference(changed);
  };
  EXPECT_TRUE(refused([](Definition& d) { d.op_type = "gemm"; }));
  EXPECT_TRUE(refused([](Definition& d) { d.inputs[0].name = "q"; }));
  EXPECT_TRUE(refused([](Definition& d) { d.inputs[0].dtype = Dtype::float8_e4m3fn; }));
  EXPECT_TRUE(refused([](Definition& d) { d.inputs[1].shape = {{"B", "H", "D", "S"}}; }));
  EXPECT_TRUE(refused([](Definition& d) { d.outputs[1].dtype = Dtype::bfloat16; }));
  EXPECT_TRUE(refused([](Definition& d) { d.outputs.pop_back(); }));
  Definition backward = **dataset->find_definition("mha_bwd_d64");
  EXPECT_TRUE(is_derived(backward, 3));
  EXPECT_TRUE(is_derived(backward, 5));
  EXPECT_FALSE(is_derived(backward, 4));
}

TEST(References, AreFoundByStructure) {
  const auto with = [](const char* from, const char* to) {
    std::string text = kDefinition;
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + 1))
      text.replace(at, std::strlen(from), to);
    return *parse_definition(base::Json::parse(text), "d");
  };
  EXPECT_TRUE(find_reference(with("x", "x")));
  EXPECT_FALSE(find_reference(with("\"op_type\":\"gemm\"", "\"op_type\":\"attention\"")));
  EXPECT_FALSE(find_reference(with("[\"N\",\"K\"]", "[\"K\",\"N\"]"))) << "NN layout is another operation";
  EXPECT_FALSE(find_reference(with("bfloat16", "float8_e4m3fn")));
  EXPECT_NE(no_reference_message(with("x", "x")).find("no native reference"), std::string::npos);
}

}  // namespace
}  // namespace ptxbench::problem
