#include "problem/dataset.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "base/files.h"
#include "problem/reference.h"

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
  const auto message = [&](std::vector<std::string> axes) {
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
  EXPECT_NE(no_reference_message(with("x", "x")).find("unknown"), std::string::npos);
}

}  // namespace
}  // namespace ptxbench::problem
