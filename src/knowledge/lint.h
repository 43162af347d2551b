#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "knowledge/hub.h"

namespace ptxbench::knowledge {

/// Something that is wrong with the packs.
struct Fault {
  std::string rule;   ///< "identifier", "helper", "number", "rule-id", "budget", "unreachable", "untested", "compile",
                      ///< "document"
  std::string place;  ///< "sm_90a/docs/tma.md:12", or a tag
  std::string message;
};

struct LintOptions {
  std::string tag;                     ///< only this one; empty: all, with what concerns the folder as a whole
  std::filesystem::path hazard_rules;  ///< docs/hazards.md; empty: rule ids are not checked, which is a fault
};

/// Everything that can be told without a compiler:
///
/// - an identifier or PTX word that a document spells as code, and no compiled file of its target has;
/// - a helper that a document names, or shown code calls, and the tag does not show; the same for a pattern's own
///   functions and constants;
/// - a helper that no program or pattern calls;
/// - a number of 100 or more in prose that numbers.toml does not have; contradictions inside numbers.toml;
/// - a rule id that docs/hazards.md does not have;
/// - a tag over its budget of estimated tokens, or under half of it (then the budget is not honest);
/// - documents, tables, headers and patterns that nothing uses; programs that do not exist.
Result<std::vector<Fault>> lint(const Hub& hub, const LintOptions& options);

/// The rule ids of docs/hazards.md; an id may end in ".*".
Result<std::vector<std::string>> read_rule_ids(const std::filesystem::path& document);

/// One file that must compile, and for what.
struct CompileJob {
  std::string file, target;
};

/// All headers, patterns and programs with their targets; with a tag only those of its target.
std::vector<CompileJob> compile_jobs(const Hub& hub, std::string_view target = {});

/// Compiles one job down to machine code. Returns what the compiler said: of headers and patterns each warning, spill
/// and advisory, of programs only errors;
/// "" if all is well. Results are kept in `cache` under the hash of the whole text.
Result<std::string> compile(const Hub& hub, const CompileJob& job, const std::filesystem::path& cache);

}  // namespace ptxbench::knowledge
