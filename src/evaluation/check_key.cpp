#include "evaluation/check_key.h"

#include <filesystem>

#include "base/files.h"
#include "candidate/identity.h"
#include "cuda_shim/host_process.h"
#include "evaluation/candidate_process.h"
#include "evaluation/findings.h"

namespace ptxbench::evaluation {
namespace {

std::string text_of(const base::Json& json) { return json.dump(-1, ' ', false, base::Json::error_handler_t::replace); }

Result<void> add_problem(base::Sha256& hash, const problem::Problem& problem) {
  hash.update_field(text_of(problem::to_json(problem.definition)));
  hash.update_field(text_of(problem::to_json(problem.workload)));
  for (const auto& [name, source] : problem.workload.inputs) {
    const auto* stored = std::get_if<problem::SafetensorsInput>(&source);
    if (stored == nullptr) continue;
    const auto digest = base::sha256_file(std::filesystem::path(problem.workload.root) / stored->path);
    if (!digest) return tl::unexpected<Error>(digest.error());
    hash.update_field(*digest);
  }
  return {};
}

Result<void> begin(base::Sha256& hash, std::string_view kind, const std::vector<std::string>& settings) {
  const auto judges = judges_digest();
  if (!judges) return tl::unexpected<Error>(judges.error());
  hash.update_field(kind).update_field(*judges).update_field(std::to_string(settings.size()));
  for (const std::string& setting : settings) hash.update_field(setting);
  return {};
}

}  // namespace

Result<std::string> judges_digest() {
  const auto program = base::executable_path();
  if (!program) return tl::unexpected<Error>(program.error());
  const auto runner = find_runner();
  if (!runner) return tl::unexpected<Error>(runner.error());
  const auto shim = cuda_shim::shim_library_folder();
  if (!shim) return tl::unexpected<Error>(shim.error());
  const auto ffi = candidate::find_ffi_runtime();
  if (!ffi) return tl::unexpected<Error>(ffi.error());
  base::Sha256 hash;
  for (const auto& file : {*program, *runner, *shim / "libcudart.so.13", *shim / "libcuda.so.1", *ffi}) {
    const auto digest = base::sha256_file(file);
    if (!digest) return tl::unexpected<Error>(digest.error());
    hash.update_field(*digest);
  }
  return hash.hex();
}

Result<check::CheckKey> check_key(const candidate::Compilation& compilation,
                                  const std::vector<problem::Problem>& problems,
                                  const std::vector<std::string>& settings) {
  if (!compilation.artifact) return input_error("a candidate that does not compile has no key");
  const auto identity = candidate::identity_of(*compilation.artifact);
  if (!identity) return tl::unexpected<Error>(identity.error());
  base::Sha256 behaviour, places;
  if (auto begun = begin(behaviour, "candidate", settings); !begun) return tl::unexpected<Error>(begun.error());
  behaviour.update_field(identity->behaviour).update_field(compilation.report.compiler);
  places.update_field(identity->places);
  // What the compiler and the search for forbidden things said of this very source is a part of the report.
  for (const Finding& finding : compile_findings(compilation)) {
    behaviour.update_field(finding.rule).update_field(to_string(finding.severity)).update_field(finding.message);
    behaviour.update_field(finding.place.kernel);
    places.update_field(finding.place.file).update_field(std::to_string(finding.place.line));
    places.update_field(std::to_string(finding.place.ptx_line)).update_field(finding.place.instruction);
  }
  for (const problem::Problem& problem : problems) {
    if (auto added = add_problem(behaviour, problem); !added) return tl::unexpected<Error>(added.error());
  }
  return check::CheckKey{behaviour.hex(), places.hex()};
}

Result<check::CheckKey> check_key(std::string_view ptx, std::string_view launch_description,
                                  const std::vector<std::string>& settings) {
  const candidate::Identity identity = candidate::identity_of_ptx(ptx);
  base::Sha256 behaviour;
  if (auto begun = begin(behaviour, "ptx", settings); !begun) return tl::unexpected<Error>(begun.error());
  behaviour.update_field(identity.behaviour).update_field(launch_description);
  return check::CheckKey{behaviour.hex(), identity.places};
}

}  // namespace ptxbench::evaluation
