// The record of a lowering comes out of a process in which foreign Python ran: nothing of it is believed.

#include "triton/record.h"

#include <gmock/gmock.h>

#include <functional>

#include "base/json.h"

namespace ptxbench::triton {
namespace {

using base::Json;

/// run(x [4, 8] float32, scale = 2, y [4, 8] float32), with 64 bytes of scratch.
std::vector<CallArguments> calls() {
  CallArgument x, scale, y;
  x.name = "x";
  x.shape = {4, 8};
  scale.name = "scale";
  scale.scalar = scale.floating = true;
  scale.number = 2;
  y.name = "y";
  y.shape = {4, 8};
  return {{x, scale, y}};
}

Json good() {
  return Json::parse(
      R"({"status": "lowered", "rule": "", "message": "", "line": 0, "python": "3.11.2", "triton": "3.6.0",
    "notes": ["a note"],
    "kernels": [{"name": "k", "ptx": ".version 8.7", "warps": 4, "shared": 1024, "cluster": 2, "fmad": true}],
    "calls": [{"buffers": [128, 128, 64], "steps": [
      {"kind": "fill", "buffer": 2, "offset": 32, "bytes": 32, "width": 4, "value": 7},
      {"kind": "copy", "buffer": 2, "offset": 0, "bytes": 32, "from": 0, "from_offset": 96},
      {"kind": "launch", "kernel": 0, "grid": [3, 2, 1], "cooperative": false, "dependent": true,
       "scratch": {"kind": "pointer", "buffer": 2, "offset": 0},
       "arguments": [{"kind": "pointer", "buffer": 0, "offset": 16}, {"kind": "scalar", "bytes": 4, "value": 5},
                     {"kind": "null"},
                     {"kind": "tensor_map", "buffer": 1, "offset": 0, "type": 7, "swizzle": 0, "box": [2, 4],
                      "shape": [4, 8], "strides": [32, 4], "nan_fill": false}]}]}]})");
}

std::string error_of(const Json& json) {
  const auto record = parse_record(json.dump(), calls());
  return record ? "" : record.error().message;
}

TEST(Record, IsReadWhole) {
  const auto record = parse_record(good().dump(), calls());
  ASSERT_TRUE(record) << record.error().message;
  EXPECT_EQ(record->status, Record::Status::lowered);
  EXPECT_EQ(record->notes, std::vector<std::string>{"a note"});
  ASSERT_EQ(record->kernels.size(), 1U);
  EXPECT_EQ(record->kernels[0].cluster, 2U);
  ASSERT_EQ(record->calls.size(), 1U);
  const RecordedCall& call = record->calls[0];
  ASSERT_EQ(call.steps.size(), 3U);
  EXPECT_EQ(call.steps[0].kind, Step::Kind::fill);
  EXPECT_EQ(call.steps[1].from_offset, 96U);
  const Step& launch = call.steps[2];
  EXPECT_TRUE(launch.dependent);
  EXPECT_EQ(launch.scratch.kind, Parameter::Kind::pointer);
  ASSERT_EQ(launch.parameters.size(), 4U);
  EXPECT_EQ(launch.parameters[0].offset, 16U);
  EXPECT_EQ(launch.parameters[3].box, (std::vector<std::uint32_t>{2, 4}));
}

TEST(Record, FailuresCarryTheirReason) {
  const auto record = parse_record(
      R"({"status": "failed", "rule": "triton.compile", "message": "CompilationError: no", "line": 12})", calls());
  ASSERT_TRUE(record);
  EXPECT_EQ(record->status, Record::Status::failed);
  EXPECT_EQ(record->line, 12);
  EXPECT_EQ(record->message, "CompilationError: no");
}

TEST(Record, TextOfOthersCannotSteerATerminal) {
  const auto record = parse_record(R"({"status": "failed", "rule": "a\u001b[2J", "message": "b\u001b[2J"})", calls());
  ASSERT_TRUE(record);
  EXPECT_EQ((record->rule + record->message).find('\x1b'), std::string::npos);
}

struct Damage {
  const char* name;
  std::function<void(Json&)> change;
  const char* says;
};

class HostileRecord : public testing::TestWithParam<Damage> {};

TEST_P(HostileRecord, IsRefused) {
  Json json = good();
  GetParam().change(json);
  EXPECT_THAT(error_of(json), testing::HasSubstr(GetParam().says));
}

Json& launch(Json& json) { return json["calls"][0]["steps"][2]; }
Json& argument(Json& json, int i) { return launch(json)["arguments"][i]; }

INSTANTIATE_TEST_SUITE_P(
    All, HostileRecord,
    testing::ValuesIn(std::vector<Damage>{
        {"StatusUnknown", [](Json& j) { j["status"] = "fine"; }, "status"},
        {"NoKernels", [](Json& j) { j.erase("kernels"); }, "kernels"},
        {"KernelNameIsCode", [](Json& j) { j["kernels"][0]["name"] = "k;rm"; }, "identifier"},
        {"KernelNameIsEmpty", [](Json& j) { j["kernels"][0]["name"] = ""; }, "identifier"},
        {"KernelNameIsHuge", [](Json& j) { j["kernels"][0]["name"] = std::string(5000, 'k'); }, "name"},
        {"PtxHoldsZeroByte", [](Json& j) { j["kernels"][0]["ptx"] = std::string("a\0b", 3); }, "zero byte"},
        {"TooManyWarps", [](Json& j) { j["kernels"][0]["warps"] = 33; }, "warps"},
        {"NoWarps", [](Json& j) { j["kernels"][0]["warps"] = 0; }, "warps"},
        {"TooMuchShared", [](Json& j) { j["kernels"][0]["shared"] = 232449; }, "shared"},
        {"NegativeShared", [](Json& j) { j["kernels"][0]["shared"] = -1; }, "shared"},
        {"ClusterTooLarge", [](Json& j) { j["kernels"][0]["cluster"] = 17; }, "cluster"},
        {"TooManyKernels", [](Json& j) { j["kernels"] = Json(std::vector<Json>(300, j["kernels"][0])); }, "kernels"},
        {"NoCalls", [](Json& j) { j["calls"] = Json::array(); }, "calls"},
        {"TooManyCalls", [](Json& j) { j["calls"].push_back(j["calls"][0]); }, "calls"},
        {"ArgumentShrunk", [](Json& j) { j["calls"][0]["buffers"][0] = 64; }, "buffer 0 is not x"},
        {"ArgumentGrown", [](Json& j) { j["calls"][0]["buffers"][1] = 256; }, "buffer 1 is not y"},
        {"ArgumentMissing", [](Json& j) { j["calls"][0]["buffers"] = {128}; }, "buffer 1 is not y"},
        {"ScratchTooLarge", [](Json& j) { j["calls"][0]["buffers"][2] = std::uint64_t{1} << 50; }, "buffers"},
        {"ScratchTooLargeInAll",
         [](Json& j) {
           for (int i = 0; i < 4; ++i) j["calls"][0]["buffers"].push_back(std::uint64_t{1} << 37);
         },
         "scratch"},
        {"BufferIsNegative", [](Json& j) { j["calls"][0]["buffers"][2] = -5; }, "buffers"},
        {"BuffersAreAnObject", [](Json& j) { j["calls"][0]["buffers"] = Json::object(); }, "buffers"},
        {"KernelUnknown", [](Json& j) { launch(j)["kernel"] = 1; }, "there is no kernel 1"},
        {"GridIsZero",
         [](Json& j) {
           launch(j)["grid"] = {0, 1, 1};
         },
         "grid"},
        {"GridIsShort",
         [](Json& j) {
           launch(j)["grid"] = {1, 1};
         },
         "grid"},
        {"GridIsHuge",
         [](Json& j) {
           launch(j)["grid"] = {1, 70000, 1};
         },
         "grid"},
        {"GridTimesClusterIsHuge",
         [](Json& j) {
           launch(j)["grid"] = {2000000000, 1, 1};
         },
         "grid"},
        {"PointerBehindItsBuffer", [](Json& j) { argument(j, 0)["offset"] = 129; }, "buffer 0"},
        {"PointerOffsetWraps", [](Json& j) { argument(j, 0)["offset"] = ~std::uint64_t{0}; }, "buffer 0"},
        {"PointerToNoBuffer", [](Json& j) { argument(j, 0)["buffer"] = 3; }, "no buffer 3"},
        {"PointerAbsolute",
         [](Json& j) {
           argument(j, 0) = {{"kind", "address"}, {"value", 4096}};
         },
         "unknown kind"},
        {"ScalarTooWide", [](Json& j) { argument(j, 1)["bytes"] = 16; }, "bytes"},
        {"ScalarIsText", [](Json& j) { argument(j, 1)["value"] = "5"; }, "value"},
        {"MapRanksDiffer", [](Json& j) { argument(j, 3)["box"] = {2}; }, "different lengths"},
        {"MapRankIsZero",
         [](Json& j) {
           for (const char* key : {"box", "shape", "strides"}) argument(j, 3)[key] = Json::array();
         },
         "different lengths"},
        {"MapRankIsSix", [](Json& j) { argument(j, 3)["box"] = {1, 1, 1, 1, 1, 1}; }, "box"},
        {"MapBoxIsHuge",
         [](Json& j) {
           argument(j, 3)["box"] = {2, 400};
         },
         "box"},
        {"MapTypeUnknown", [](Json& j) { argument(j, 3)["type"] = 99; }, "type"},
        {"ScratchIsNoPointer",
         [](Json& j) {
           launch(j)["scratch"] = {{"kind", "null"}};
         },
         "scratch"},
        {"TooManyArguments",
         [](Json& j) {
           launch(j)["arguments"] = Json(std::vector<Json>(600, Json{{"kind", "null"}}));
         },
         "arguments"},
        {"FillBehindItsBuffer", [](Json& j) { j["calls"][0]["steps"][0]["bytes"] = 36; }, "buffer 2"},
        {"FillOfParts", [](Json& j) { j["calls"][0]["steps"][0]["width"] = 3; }, "whole number"},
        {"CopyBehindItsSource", [](Json& j) { j["calls"][0]["steps"][1]["from_offset"] = 100; }, "buffer 0"},
        {"CopyFromNowhere", [](Json& j) { j["calls"][0]["steps"][1]["from"] = 9; }, "no buffer 9"},
        {"StepUnknown", [](Json& j) { j["calls"][0]["steps"][0]["kind"] = "system"; }, "unknown kind of step"},
        {"StepsAreDeep", [](Json& j) { j["calls"][0]["steps"][0] = Json::array({Json::array()}); }, "not an object"},
        {"NothingIsLaunched", [](Json& j) { j["calls"][0]["steps"].erase(2); }, "no kernel is launched"},
    }),
    [](const testing::TestParamInfo<Damage>& test) { return test.param.name; });

TEST(Record, TextThatIsNoJsonIsRefused) {
  for (const char* text : {"", "{", "[]", "null", "\xff\xfe"}) {
    EXPECT_FALSE(parse_record(text, calls())) << text;
  }
  EXPECT_FALSE(parse_record(std::string(100'000, '['), calls()));
}

}  // namespace
}  // namespace ptxbench::triton
