#include <algorithm>
#include <chrono>

#include "base/files.h"
#include "base/hash.h"
#include "base/process.h"
#include "base/text.h"
#include "candidate/compiler.h"
#include "candidate/toolchain.h"
#include "knowledge/lint.h"
#include "problem/dataset.h"
#include "triton/compiler.h"
#include "triton/lowering.h"

namespace ptxbench::knowledge {
namespace {

namespace fs = std::filesystem;

void add_files(const fs::path& folder, const std::string& below, std::string_view ending,
               std::vector<std::string>& files) {
  std::error_code error;
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(folder / below, error)) {
    if (entry.path().extension() == ending) found.push_back(below + "/" + entry.path().filename().string());
  }
  std::sort(found.begin(), found.end());
  files.insert(files.end(), found.begin(), found.end());
}

/// What Triton and ptxas say of a pattern, with the shapes of its problem.
Result<std::string> compile_triton(const Hub& hub, const CompileJob& job, const std::string& source,
                                   const fs::path& cache) {
  const auto pattern = std::find_if(hub.triton().begin(), hub.triton().end(),
                                    [&](const TritonPattern& one) { return one.file == job.file; });
  if (pattern == hub.triton().end()) return fmt::format("{} is not in [triton] of hub.toml", job.file);
  const auto roots = problem::dataset_roots({});
  if (!roots) return tl::unexpected(roots.error());
  const auto dataset = problem::Dataset::load(*roots);
  if (!dataset) return tl::unexpected(dataset.error());
  const auto problems = dataset->choose(pattern->problem, pattern->axes, {});
  if (!problems) return tl::unexpected(problems.error());
  static const auto compiler = candidate::Compiler::create();
  if (!compiler) return tl::unexpected(compiler.error());
  base::Sha256 hash;
  hash.update_field("ptxbench-knowledge-triton-1");
  hash.update_field(source)
      .update_field(job.target)
      .update_field(triton::lowering_digest())
      .update_field(pattern->problem);
  for (const std::string& axis : pattern->axes) hash.update_field(axis);
  const fs::path kept = cache / (hash.hex() + ".txt");
  std::error_code ignored;
  if (fs::exists(kept, ignored)) return base::read_file(kept);
  const auto report = triton::Compiler(*compiler).try_compile(source, *problems, job.target == "sm_100a" ? 100 : 90);
  if (!report) return tl::unexpected(report.error());
  std::string said;
  for (const candidate::CompilerMessage& message : report->messages) {
    // ptxas warns of register counts that Triton itself chose.
    if (message.rule != "triton.note" && message.rule != "compile.warning")
      said += fmt::format("{}:{}: {}\n", message.rule, message.where.line, message.text);
  }
  if (!report->succeeded() && said.empty()) said = report->log;
  if (auto written = base::write_file_atomic(kept, said); !written) return tl::unexpected(written.error());
  return said;
}

}  // namespace

std::vector<CompileJob> compile_jobs(const Hub& hub, std::string_view target) {
  std::vector<CompileJob> jobs;
  for (const std::string_view one : {"sm_90a", "sm_100a"}) {
    if (!target.empty() && target != one) continue;
    std::vector<std::string> files;
    add_files(hub.folder(), "common/include", ".cuh", files);
    add_files(hub.folder(), std::string(one) + "/include", ".cuh", files);
    add_files(hub.folder(), std::string(one) + "/patterns", ".cu", files);
    for (const Program& program : hub.programs()) {
      if (std::find(program.targets.begin(), program.targets.end(), one) != program.targets.end()) {
        files.push_back(program.file);
      }
    }
    for (const TritonPattern& pattern : hub.triton()) {
      if (std::find(pattern.targets.begin(), pattern.targets.end(), one) != pattern.targets.end()) {
        files.push_back(pattern.file);
      }
    }
    for (std::string& file : files) jobs.push_back({std::move(file), std::string(one)});
  }
  return jobs;
}

Result<std::string> compile(const Hub& hub, const CompileJob& job, const fs::path& cache) {
  const auto source = flatten(hub.folder(), job.file, job.target);
  if (!source) return source.error().message;
  if (candidate::language_of_file(job.file) == candidate::Language::triton)
    return compile_triton(hub, job, *source, cache);
  static const auto toolchain = candidate::find_toolchain();
  if (!toolchain) return tl::unexpected(toolchain.error());
  // Programs may be slow: some hold faults on purpose, others a model of what the hardware does.
  const bool program = job.file.starts_with("programs/");
  std::vector<std::string> words = {"-cubin", "-arch=" + job.target, "-std=c++17",
                                    "-I" + toolchain->lean_include.string()};
  if (program) {
    words.emplace_back("-w");
  } else {
    words.insert(words.end(), {"-Xptxas", "-warn-spills"});
  }
  base::Sha256 hash;
  hash.update_field(toolchain->cuda.version).update_field(toolchain->lean_digest).update_field(*source);
  for (const std::string& word : words) hash.update_field(word);
  const fs::path kept = cache / (hash.hex() + ".txt");
  std::error_code ignored;
  if (fs::exists(kept, ignored)) return base::read_file(kept);

  const auto work = base::TempDir::create();
  if (!work) return tl::unexpected(work.error());
  if (auto written = base::write_file_atomic(work->path() / "pack.cu", *source); !written)
    return tl::unexpected(written.error());
  base::ProcessOptions options;
  options.argv = {toolchain->cuda.nvcc.string()};
  options.argv.insert(options.argv.end(), words.begin(), words.end());
  options.argv.insert(options.argv.end(), {"pack.cu", "-o", "pack.cubin"});
  options.working_directory = work->path();
  options.wall_limit = std::chrono::seconds(300);
  const auto result = base::run_process(options);
  if (!result) return tl::unexpected(result.error());
  std::string said(base::trim(result->stdout_text + result->stderr_text));
  if (result->ok() && program) said.clear();
  if (!result->ok() && said.empty()) said = "nvcc " + result->outcome();
  if (auto written = base::write_file_atomic(kept, said); !written) return tl::unexpected(written.error());
  return said;
}

}  // namespace ptxbench::knowledge
