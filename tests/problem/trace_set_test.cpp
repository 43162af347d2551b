// What a folder from elsewhere may hold, and what is said about it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "base/files.h"
#include "problem/dataset.h"
#include "problem/inputs.h"
#include "problem/validation.h"

namespace ptxbench::problem {
namespace {

namespace fs = std::filesystem;
using Severity = Remark::Severity;

constexpr const char* kDefinition =
    R"({"name":"d","op_type":"gemm","axes":{"M":{"type":"var"},"N":{"type":"const","value":4},
 "K":{"type":"const","value":2}},"inputs":{"A":{"shape":["M","K"],"dtype":"float32"},"B":{"shape":["N","K"],"dtype":"float32"}},
 "outputs":{"C":{"shape":["M","N"],"dtype":"float32"}},"reference":"def run(A, B):\n  return A @ B.T"})";

std::string workload(const std::string& uuid, const std::string& m, const std::string& inputs = "{}") {
  return R"({"definition":"d","workload":{"uuid":")" + uuid + R"(","axes":{"M":)" + m + R"(},"inputs":)" + inputs +
         "}}\n";
}

std::string blob_input(const std::string& path) {
  return R"({"A":{"type":"safetensors","path":")" + path + R"(","tensor_key":"a"}})";
}

/// A safetensors file with one tensor "a", all ones.
std::string blob(const std::string& dtype, const std::string& shape, std::size_t floats) {
  const std::string header = R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":[0,)" +
                             std::to_string(4 * floats) + "]}}";
  const std::uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  const std::vector<float> ones(floats, 1.0f);
  return bytes + header + std::string(reinterpret_cast<const char*>(ones.data()), 4 * floats);
}

class TraceSetTest : public ::testing::Test {
 protected:
  void SetUp() override { write("r/definitions/d.json", kDefinition); }
  void write(const std::string& path, const std::string& text) {
    const fs::path file = folder_.path() / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
  }
  std::string changed(const std::string& from, const std::string& to) {
    std::string text = kDefinition;
    text.replace(text.find(from), from.size(), to);
    return text;
  }
  /// Messages of one severity, one a line.
  std::string remarks(Severity severity, const std::vector<std::string>& roots = {"r"}) {
    std::vector<fs::path> paths;
    for (const std::string& root : roots) paths.push_back(folder_.path() / root);
    const auto validation = validate(paths);
    if (!validation) return "cannot be read: " + validation.error().message;
    std::string text;
    for (const Remark& remark : validation->remarks) {
      if (remark.severity == severity) text += remark.message + "\n";
    }
    return text;
  }
  std::string errors() { return remarks(Severity::error); }
  std::string inputs_error() {
    const auto dataset = Dataset::load({folder_.path() / "r"});
    if (!dataset) return dataset.error().message;
    const auto problem = make_problem(**dataset->find_definition("d"), dataset->workloads("d").at(0));
    if (!problem) return problem.error().message;
    const auto inputs = make_inputs(*problem, {});
    return inputs ? "" : inputs.error().message;
  }
  base::TempDir folder_ = *base::TempDir::create();
};

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST_F(TraceSetTest, ASoundOneHasNoRemarks) {
  write("r/workloads/d.jsonl", workload("u", "3", blob_input("blob/a.safetensors")));
  write("r/blob/a.safetensors", blob("F32", "[3,2]", 6));
  const auto validation = validate({folder_.path() / "r"});
  ASSERT_TRUE(validation) << validation.error().message;
  EXPECT_EQ(validation->definitions, 1u);
  EXPECT_EQ(validation->workloads, 1u);
  EXPECT_EQ(validation->blobs, 1u);
  for (const Remark& remark : validation->remarks) ADD_FAILURE() << remark.message;
  EXPECT_EQ(inputs_error(), "");
}

TEST_F(TraceSetTest, AllThatIsWrongIsSaidAtOnce) {
  write("r/definitions/e.json", "{");
  write("r/definitions/f.json", kDefinition);
  write("r/workloads/d.jsonl", workload("u", "3") + "nonsense\n" + workload("u", "4") + workload("v", "\"x\"") +
                                   workload("w", "5", R"({"X":{"type":"random"}})") + workload("x", "6"));
  write("r/workloads/g.jsonl", R"({"definition":"g","workload":{"uuid":"y","axes":{}}})");
  const std::string all = errors();
  EXPECT_HAS(all, "e.json is not valid JSON at line 1");
  EXPECT_HAS(all, "names must be unique");
  EXPECT_HAS(all, "d.jsonl:2 is not valid JSON");
  EXPECT_HAS(all, "d.jsonl:3: workload u is already at");
  EXPECT_HAS(all, "d.jsonl:4.workload.axes.M: an integer is needed");
  EXPECT_HAS(all, "gives an input 'X' that d does not have");
  EXPECT_HAS(all, "there is no problem 'g'");
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 7) << all;
  EXPECT_FALSE(Dataset::load({folder_.path() / "r"})) << "without asking for all, the first one is an error";
}

TEST_F(TraceSetTest, AxesThatDependOnEachOtherInACircle) {
  write("r/definitions/d.json",
        changed(R"("M":{"type":"var"})", R"("M":{"type":"var","parent":"L"},"L":{"type":"var","parent":"M"})"));
  EXPECT_HAS(errors(), "the axes depend on each other in a circle: M -> L -> M");
  write("r/definitions/d.json", changed(R"({"type":"var"})", R"({"type":"var","parent":"M"})"));
  EXPECT_HAS(errors(), "in a circle: M -> M");
  write("r/definitions/d.json", changed(R"({"type":"var"})", R"({"type":"var","parent":"L"})"));
  EXPECT_HAS(errors(), "there is no axis 'L'");
  write("r/definitions/d.json", changed(R"({"type":"var"})", R"({"type":"var","parent":"N"})"));
  EXPECT_EQ(errors(), "");
  write("r/definitions/d.json", changed(R"(["M","N"],"dtype":"float32"}})", R"(["M","P"],"dtype":"float32"}})"));
  EXPECT_HAS(errors(), "there is no axis 'P'");
}

TEST_F(TraceSetTest, BlobsThatAreMissingCutOffOrOfAnotherKind) {
  write("r/workloads/d.jsonl", workload("u", "3", blob_input("blob/a.safetensors")));
  EXPECT_HAS(errors(), "No such file");
  const std::string whole = blob("F32", "[3,2]", 6);
  for (std::size_t kept = 0; kept < whole.size(); kept += 3) {
    write("r/blob/a.safetensors", whole.substr(0, kept));
    EXPECT_HAS(errors(), "a.safetensors") << kept;
    EXPECT_NE(inputs_error(), "") << kept;
  }
  write("r/blob/a.safetensors", blob("F32", "[2,3]", 6));
  EXPECT_HAS(errors(), "is float32 [2, 3], but float32 [3, 2] is needed");
  EXPECT_HAS(inputs_error(), "is float32 [2, 3], but float32 [3, 2] is needed");
  write("r/blob/a.safetensors", blob("I32", "[3,2]", 6));
  EXPECT_HAS(errors(), "is int32 [3, 2]");
  write("r/blob/a.safetensors", blob("F64", "[3]", 6));
  EXPECT_HAS(errors(), "F64 is not supported");
  fs::remove(folder_.path() / "r/blob/a.safetensors");
  fs::create_directories(folder_.path() / "r/blob/a.safetensors");
  EXPECT_HAS(errors(), "a.safetensors");
  EXPECT_NE(inputs_error(), "");
}

TEST_F(TraceSetTest, PathsThatLeaveTheFolder) {
  write("outside.safetensors", blob("F32", "[3,2]", 6));
  for (const std::string& path :
       {std::string("../outside.safetensors"), std::string("blob/../../outside.safetensors"),
        (folder_.path() / "outside.safetensors").string(), (folder_.path() / "r/../outside.safetensors").string(),
        std::string("/etc/passwd"), std::string("."), std::string("..")}) {
    write("r/workloads/d.jsonl", workload("u", "3", blob_input(path)));
    EXPECT_HAS(errors(), "is outside of") << path;
    EXPECT_HAS(inputs_error(), "is outside of") << path;
  }
  // A folder whose name only begins like the root's.
  write("r2/a.safetensors", blob("F32", "[3,2]", 6));
  write("r/workloads/d.jsonl", workload("u", "3", blob_input("../r2/a.safetensors")));
  EXPECT_HAS(errors(), "is outside of");
  ::setenv("PTXBENCH_BLOB_ROOTS", (folder_.path() / "r2").c_str(), 1);
  EXPECT_EQ(inputs_error(), "");
  ::unsetenv("PTXBENCH_BLOB_ROOTS");

  write("r/b/a.safetensors", blob("F32", "[3,2]", 6));
  for (const std::string& path :
       {std::string("b/../b/./a.safetensors"), (folder_.path() / "r/b/a.safetensors").string()}) {
    write("r/workloads/d.jsonl", workload("u", "3", blob_input(path)));
    EXPECT_EQ(errors(), "") << path;
    EXPECT_EQ(inputs_error(), "") << path;
  }
}

TEST_F(TraceSetTest, HugeShapes) {
  for (const char* m : {"4611686018427387904", "9223372036854775807", "1152921504606846976"}) {
    write("r/workloads/d.jsonl", workload("u", m));
    EXPECT_NE(errors(), "") << m;
    EXPECT_NE(inputs_error(), "") << m;
  }
  for (const char* m : {"9223372036854775808", "-1", "1e3", "1.5", "null", "true", "[3]"}) {
    write("r/workloads/d.jsonl", workload("u", m));
    EXPECT_HAS(errors(), "axes.M") << m;
  }
  write("r/workloads/d.jsonl", workload("u", "3"));
  write("r/definitions/d.json", changed(R"("value":2)", R"("value":9223372036854775807)"));
  EXPECT_NE(errors(), "");
}

TEST_F(TraceSetTest, JsonThatHidesThings) {
  write("r/definitions/d.json", changed(R"("B":{"shape":["N","K"])", R"("A":{"shape":["N","K"])"));
  EXPECT_HAS(errors(), R"(has the key "A" twice)");
  write("r/definitions/d.json", kDefinition);
  write("r/workloads/d.jsonl", R"({"definition":"d","workload":{"uuid":"u","axes":{"M":3,"M":4}}})");
  EXPECT_HAS(errors(), R"(has the key "M" twice)");
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  write("r/workloads/d.jsonl", R"({"definition":"d","workload":{"uuid":"u","axes":{"M":3}},"more":)" + deep + "}");
  EXPECT_HAS(errors(), "nested more than");
  write("r/workloads/d.jsonl", "\xff\xfe{\"definition\"");
  EXPECT_HAS(errors(), "d.jsonl:1");
}

TEST_F(TraceSetTest, FilesThatAreNone) {
  write("r/workloads/d.jsonl", workload("u", "3"));
  fs::create_symlink("loop.json", folder_.path() / "r/definitions/loop.json");
  fs::create_symlink("/nowhere", folder_.path() / "r/definitions/gone.json");
  fs::create_directory_symlink("..", folder_.path() / "r/definitions/up");
  fs::create_directories(folder_.path() / "r/definitions/folder.json");
  EXPECT_EQ(errors(), "");
}

TEST_F(TraceSetTest, ReferencesWithoutRunAndAxesThatNobodySees) {
  write("r/definitions/d.json", changed("def run(A, B)", "def go(A, B)"));
  EXPECT_HAS(errors(), "no top-level function `run`");
  write("r/definitions/d.json",
        changed(R"("N":{"type":"const","value":4})", R"("N":{"type":"const","value":4},"X":{"type":"var"})"));
  EXPECT_HAS(remarks(Severity::warning), "axes.X: no input has this axis");
  EXPECT_HAS(remarks(Severity::note), "d has no workload");
}

TEST_F(TraceSetTest, CopiesOfADataSetAreEqualWhereverTheyLie) {
  write("r/workloads/d.jsonl", workload("u", "3", blob_input("blob/a.safetensors")));
  write("r/blob/a.safetensors", blob("F32", "[3,2]", 6));
  fs::copy(folder_.path() / "r", folder_.path() / "s", fs::copy_options::recursive);
  fs::copy(folder_.path() / "r", folder_.path() / "t", fs::copy_options::recursive);
  EXPECT_EQ(remarks(Severity::error, {"r", "s", "t"}), "");
  write("t/workloads/d.jsonl", workload("u", "3", blob_input("blob/b.safetensors")));
  EXPECT_HAS(remarks(Severity::error, {"r", "s", "t"}), "differs");
  // Each workload's files are looked for in its own folder.
  fs::rename(folder_.path() / "t/blob/a.safetensors", folder_.path() / "t/blob/b.safetensors");
  write("t/workloads/d.jsonl", workload("v", "3", blob_input("blob/b.safetensors")));
  EXPECT_EQ(remarks(Severity::error, {"r", "s", "t"}), "");
  EXPECT_EQ(remarks(Severity::error, {"t", "r"}), "");
}

TEST_F(TraceSetTest, RemarksHaveNoControlCharacters) {
  write("r/definitions/e.json", "{\"name\":\"\\u001b[2Jerror: \\u009b\\nx\"}");
  write("r/workloads/d.jsonl", workload("u\\u001b[31m\\n", "3", R"({"A":{"type":"scalar","value":1}})"));
  const std::string all = remarks(Severity::error, {"r"});
  EXPECT_EQ(all.find('\x1b'), std::string::npos) << all;
  EXPECT_HAS(all, "\\x1b[31m\\n");
}

TEST_F(TraceSetTest, ScalarsThatAreNotWhatTheTypeHolds) {
  write("r/definitions/d.json",
        R"({"name":"d","op_type":"x","axes":{"M":{"type":"var"}},"inputs":{"A":{"shape":["M"],"dtype":"float32"},
        "s":{"shape":null,"dtype":"int8"}},"outputs":{"C":{"shape":["M"],"dtype":"float32"}},"reference":"def run(A, s):\n  return A"})");
  write("r/workloads/d.jsonl", workload("u", "3", R"({"s":{"type":"scalar","value":300}})"));
  EXPECT_HAS(remarks(Severity::error, {"r"}), "input s is 300, which int8 cannot hold");
  write("r/workloads/d.jsonl", workload("u", "3"));
  EXPECT_HAS(remarks(Severity::warning, {"r"}), "the scalar s has no value");
}

TEST_F(TraceSetTest, RootsThatCannotBeRead) {
  EXPECT_HAS(remarks(Severity::error, {"nowhere"}), "no such folder");
  EXPECT_HAS(remarks(Severity::error, {"r", "r/definitions"}), "neither definitions/ nor workloads/");
}

TEST(ShippedProblems, AreValid) {
  const auto home = base::home_dir();
  ASSERT_TRUE(home);
  const auto validation = validate({*home / "problems"});
  ASSERT_TRUE(validation) << validation.error().message;
  EXPECT_GT(validation->workloads, 100u);
  for (const Remark& remark : validation->remarks) ADD_FAILURE() << remark.message;
}

}  // namespace
}  // namespace ptxbench::problem
