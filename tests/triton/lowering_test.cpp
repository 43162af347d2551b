// Candidates' Python, run by the lowering: what is recorded, what is refused, and what hostile code can do.

#include "triton/lowering.h"

#include <gmock/gmock.h>

#include "evaluator_fixture.h"

namespace ptxbench::triton {
namespace {

using testing::HasSubstr;

const Installation& installation() {
  static const Installation kOne = [] {
    auto found = find_installation();
    if (!found) throw std::runtime_error(found.error().message);
    return *found;
  }();
  return kOne;
}

constexpr std::string_view kHead = R"(import torch
import triton
import triton.language as tl

@triton.jit
def copy_kernel(x_ptr, y_ptr, n, scale, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) * scale, mask=i < n)

)";

/// run(x [6, 100] float32, s = 3, y [6, 100] float32)
Lowering lower_text(const std::string& text, LoweringOptions options = {}) {
  CallArgument x, s, y;
  x.name = "x";
  x.shape = {6, 100};
  s.name = "s";
  s.scalar = s.floating = true;
  s.number = 3;
  y.name = "y";
  y.shape = {6, 100};
  auto lowering = lower(installation(), text, {{x, s, y}}, options);
  if (!lowering) throw std::runtime_error(lowering.error().message);
  return std::move(*lowering);
}
Record record_of(const std::string& body) { return lower_text(std::string(kHead) + body).record; }

TEST(Lowering, RecordsWhatRunDoes) {
  const Lowering lowering = lower_text(std::string(kHead) + R"(
def run(x: torch.Tensor, s: float, y: torch.Tensor):
    n = x.numel()
    part = torch.zeros((n // 2,), device=x.device, dtype=torch.float32)
    rest = torch.empty_like(x, dtype=torch.float16)
    rest.fill_(1.5)
    y.view(-1)[:300].copy_(x.reshape(600)[300:])
    grid = lambda meta: (triton.cdiv(n, meta["BLOCK"]),)
    copy_kernel[grid](x[1], y.t()[4:], 16, s, BLOCK=128, num_warps=2)
    copy_kernel[grid](part, y, 32, s, BLOCK=128, num_warps=2)
    return y
)");
  const Record& record = lowering.record;
  ASSERT_EQ(record.status, Record::Status::lowered) << record.message << lowering.log;
  EXPECT_FALSE(record.triton_version.empty());
  ASSERT_EQ(record.kernels.size(), 1U) << "equal specialisations are one kernel";
  EXPECT_EQ(record.kernels[0].name, "copy_kernel");
  EXPECT_EQ(record.kernels[0].warps, 2U);
  EXPECT_THAT(record.kernels[0].ptx, HasSubstr(".target sm_90a"));
  EXPECT_THAT(record.kernels[0].ptx, HasSubstr(".version 9.0"));
  ASSERT_EQ(record.calls.size(), 1U);
  const RecordedCall& call = record.calls[0];
  EXPECT_EQ(call.buffers, (std::vector<std::uint64_t>{2400, 2400, 1200, 1200}));
  ASSERT_EQ(call.steps.size(), 5U);
  EXPECT_EQ(call.steps[0].buffer, 2U);
  EXPECT_EQ(call.steps[1].value, 0x3e00U);  // 1.5 in half precision
  EXPECT_EQ(call.steps[2].kind, Step::Kind::copy);
  EXPECT_EQ(call.steps[2].from_offset, 1200U);
  EXPECT_EQ(call.steps[2].bytes, 1200U);
  const Step& first = call.steps[3];
  EXPECT_EQ(first.grid, (std::array<std::uint32_t, 3>{5, 1, 1}));
  ASSERT_EQ(first.parameters.size(), 4U);
  EXPECT_EQ(first.parameters[0].offset, 400U);
  EXPECT_EQ(first.parameters[1].offset, 16U);
  EXPECT_EQ(first.parameters[2].value, 16U);
  EXPECT_EQ(first.parameters[3].value, 0x40400000U);  // 3.0f
}

TEST(Lowering, AutotuneTakesTheFirstConfigurationThatCompilesAndSaysSo) {
  const Record record = record_of(R"(
@triton.autotune(configs=[triton.Config({"BLOCK": 100}), triton.Config({"BLOCK": 64}, num_warps=1),
                          triton.Config({"BLOCK": 128})], key=["n"])
@triton.jit
def tuned(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK != 100)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)

def run(x, s, y):
    tuned[lambda meta: (triton.cdiv(600, meta["BLOCK"]),)](x, y, 600)
)");
  ASSERT_EQ(record.status, Record::Status::lowered) << record.message;
  EXPECT_EQ(record.kernels.at(0).warps, 1U);
  EXPECT_EQ(record.calls.at(0).steps.at(0).grid[0], 10U);
  ASSERT_EQ(record.notes.size(), 1U);
  EXPECT_THAT(record.notes[0], HasSubstr("autotune of tuned: nothing is timed here"));
}

struct Refusal {
  const char* name;
  const char* body;
  Record::Status status;
  const char* rule;
  const char* says;
  int line;  ///< 0: none expected
};
/// What autotune compiled and does not take is no part of the candidate, however big it is.
TEST(Lowering, ConfigurationsThatDoNotFitLeaveNoKernelBehind) {
  const Record record = record_of(R"(
@triton.autotune(configs=[triton.Config({"BLOCK": 64, "K": 4096}, num_stages=1), triton.Config({"BLOCK": 16, "K": 16})], key=["n"])
@triton.jit
def product(x_ptr, y_ptr, n, BLOCK: tl.constexpr, K: tl.constexpr):
    i = tl.arange(0, BLOCK)
    k = tl.arange(0, K)
    a = tl.load(x_ptr + i[:, None] * 0 + k[None, :] % 100).to(tl.float16)
    b = tl.load(x_ptr + k[:, None] % 100 + i[None, :] * 0).to(tl.float16)
    c = tl.dot(a, b)
    tl.store(y_ptr + (i[:, None] * BLOCK + i[None, :]) % 100, c, mask=i[:, None] * BLOCK + i[None, :] < 100)

def run(x, s, y):
    product[(1,)](x, y, x.numel())
)");
  ASSERT_EQ(record.status, Record::Status::lowered) << record.message;
  ASSERT_EQ(record.kernels.size(), 1U);
  EXPECT_LE(record.kernels[0].shared, 232448U);
}

class Refused : public testing::TestWithParam<Refusal> {};

TEST_P(Refused, SaysWhy) {
  const Refusal& want = GetParam();
  const Record record = record_of(want.body);
  EXPECT_EQ(record.status, want.status);
  EXPECT_EQ(record.rule, want.rule);
  EXPECT_THAT(record.message, HasSubstr(want.says));
  EXPECT_EQ(record.line, want.line);
}

INSTANTIATE_TEST_SUITE_P(
    All, Refused,
    testing::ValuesIn(std::vector<Refusal>{
        {"Syntax", "def run(x, s, y)\n    pass\n", Record::Status::failed, "triton.syntax", "expected ':'", 10},
        {"Import", "import numpy\ndef run(x, s, y): pass\n", Record::Status::refused, "triton.import", "import numpy",
         10},
        {"NoRun", "def go(x, s, y): pass\n", Record::Status::refused, "triton.no-run", "no function `run`", 0},
        {"NoLaunch", "def run(x, s, y): pass\n", Record::Status::refused, "triton.no-launch", "launches no", 0},
        {"Arguments", "def run(x, y): pass\n", Record::Status::refused, "triton.arguments", "too many positional", 0},
        {"Contents", "def run(x, s, y):\n    if x[0, 0].item() > 1: pass\n", Record::Status::failed,
         "triton.not-provided", "host code cannot read a tensor's contents", 11},
        {"Mathematics", "def run(x, s, y):\n    y.copy_(torch.matmul(x, x))\n", Record::Status::failed,
         "triton.not-provided", "torch.matmul is not provided", 11},
        {"Operator", "def run(x, s, y):\n    z = x * 2\n", Record::Status::failed, "triton.not-provided",
         "`*` on tensors in host code", 11},
        {"Method", "def run(x, s, y):\n    z = x.softmax(-1)\n", Record::Status::failed, "triton.not-provided",
         "torch.Tensor.softmax is not provided", 11},
        {"Transposed", "def run(x, s, y):\n    z = x.t().contiguous()\n", Record::Status::failed, "triton.not-provided",
         "pass the strides", 11},
        {"OfTriton", R"(
@triton.jit
def bad(x_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x_ptr + i, undefined_name)

def run(x, s, y):
    bad[(1,)](x, BLOCK=64)
)",
         Record::Status::failed, "triton.compile", "undefined_name is not defined", 14},
        {"TooMuchMemory", R"(
@triton.jit
def k(x_ptr):
    tl.store(x_ptr, 1.0)

def run(x, s, y):
    everything = bytearray(1 << 42)
    k[(1,)](y)
)",
         Record::Status::failed, "compile.memory", "more memory than it may", 16},
        {"SaysThatMemoryIsOut", R"(
@triton.jit
def k(x_ptr):
    tl.store(x_ptr, 1.0)

def run(x, s, y):
    raise ValueError("MemoryError: bad_alloc")
)",
         Record::Status::failed, "triton.compile", "ValueError", 16},
        {"TooMuchShared", R"(
@triton.jit
def big(x_ptr, y_ptr):
    i = tl.arange(0, 512)
    a = tl.load(x_ptr + i[:, None] * 512 + i[None, :]).to(tl.bfloat16)
    tl.store(y_ptr + i[:, None] * 512 + i[None, :], tl.dot(a, tl.trans(a)))

def run(x, s, y):
    big[(1,)](x, y, num_warps=32)
)",
         Record::Status::failed, "triton.compile", "shared memory", 18},
    }),
    [](const testing::TestParamInfo<Refusal>& test) { return test.param.name; });

// --- hostile code

/// The process's own program, by a way that no list of forbidden names closes.
constexpr const char* kMain = "main = triton.runtime.jit.inspect.sys.modules['__main__']\n";

TEST(Hostile, RecordsOfItsOwnMakingAreChecked) {
  const Record record = record_of(std::string(kMain) + R"(
def lies(request, answer):
    answer["status"] = "lowered"
    answer["kernels"] = [{"name": "k", "ptx": "", "warps": 4, "shared": 0, "cluster": 1, "fmad": True}]
    answer["calls"] = [{"buffers": [2400, 2400], "steps": [{"kind": "launch", "kernel": 0, "grid": [1, 1, 1],
        "cooperative": False, "dependent": False, "arguments": [{"kind": "pointer", "buffer": 0, "offset": 1 << 60}]}]}]
    write(request, answer)
write, main.write_answer = main.write_answer, lies
def run(x, s, y): pass
)");
  EXPECT_EQ(record.status, Record::Status::failed);
  EXPECT_EQ(record.rule, "triton.record");
  EXPECT_THAT(record.message, HasSubstr("buffer 0"));
}

TEST(Hostile, EndingTheProcessIsNoResult) {
  const Lowering lowering = lower_text(std::string(kHead) +
                                       "triton.runtime.jit.inspect.os._exit(0)\n"
                                       "def run(x, s, y): pass\n");
  EXPECT_EQ(lowering.record.status, Record::Status::failed);
  EXPECT_EQ(lowering.record.rule, "triton.crash");
  EXPECT_THAT(lowering.record.message, HasSubstr("exited with code 0"));
}

TEST(Hostile, LoopsEndAtTheLimit) {
  LoweringOptions options;
  options.wall_limit = std::chrono::milliseconds(2500);
  const Lowering lowering = lower_text(std::string(kHead) + "while True: pass\ndef run(x, s, y): pass\n", options);
  EXPECT_TRUE(lowering.timed_out);
  EXPECT_EQ(lowering.record.status, Record::Status::failed);
}

/// Each attempt prints whether it was possible.
TEST(Hostile, NeitherFilesNorNetworkNorProcessesNorVariablesAreItsOwn) {
  ::setenv("PTXBENCH_TEST_SECRET", "hunter2", 1);
  const Lowering lowering = lower_text(std::string(kHead) + R"(
os = triton.runtime.jit.inspect.os
def attempt(name, what):
    try:
        what()
        print(name, "was possible")
    except BaseException as error:
        print(name, type(error).__name__)
attempt("write", lambda: open("/tmp/ptxbench-hostile", "w"))
attempt("remove", lambda: os.remove("/etc/hostname"))
attempt("process", lambda: os.fork())
attempt("socket", lambda: (lambda s: s.socket(s.AF_INET))(__import__("socket")))
attempt("kill", lambda: os.kill(os.getppid(), 15))
print("variables", sorted(os.environ))
def run(x, s, y): pass
)");
  EXPECT_EQ(lowering.record.rule, "triton.no-launch") << lowering.log;
  EXPECT_EQ(lowering.log.find("was possible"), std::string::npos) << lowering.log;
  EXPECT_EQ(lowering.log.find("SECRET"), std::string::npos) << lowering.log;
  EXPECT_THAT(lowering.log, HasSubstr("write PermissionError"));
}

TEST(CallArguments, FollowTheDefinition) {
  const auto call = call_arguments(evaluation::small_problem(100));
  ASSERT_TRUE(call);
  ASSERT_EQ(call->size(), 3U);
  EXPECT_EQ((*call)[0].shape, (std::vector<std::int64_t>{100, 192}));
  EXPECT_EQ((*call)[2].name, "C");
  EXPECT_EQ((*call)[2].bytes(), 100U * 256 * 2);
}

}  // namespace
}  // namespace ptxbench::triton
