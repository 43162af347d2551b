#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <regex>
#include <set>

#include "agent/feedback_parts.h"
#include "base/text.h"

namespace ptxbench::agent::parts {
namespace {

using candidate::CompilerMessage;
using candidate::MessageLevel;

/// Words that models use for the same thing when they name helpers.
std::string canonical_word(std::string_view word) {
  static const std::map<std::string_view, std::string_view> kSame = {
      {"warpgroup", "wgmma"}, {"mbar", "barrier"},  {"mbarrier", "barrier"}, {"bar", "barrier"},
      {"smem", "shared"},     {"cp", "copy"},       {"addr", "address"},     {"desc", "descriptor"},
      {"arrive", "arrive"},   {"expect", "expect"}, {"sync", "wait"},        {"ptr", "pointer"}};
  const std::string lower = base::to_lower(word);
  const auto same = kSame.find(lower);
  return same == kSame.end() ? lower : std::string(same->second);
}

std::set<std::string> words_of(std::string_view name) {
  std::set<std::string> words;
  for (const std::string_view part : base::split(name, '_')) {
    if (!part.empty()) words.insert(canonical_word(part));
  }
  return words;
}

/// The name that was probably meant: by spelling, else by the words that it is made of.
std::optional<std::string> meant(const std::string& name, const std::vector<std::string>& candidates) {
  std::vector<std::string> others;
  for (const std::string& one : candidates) {
    if (one != name) others.push_back(one);
  }
  if (const auto near = base::nearest(name, others)) return std::string(*near);
  const std::set<std::string> words = words_of(name);
  std::optional<std::string> best;
  double best_share = 0.5;  // at least half of the words of both together
  for (const std::string& one : others) {
    const std::set<std::string> its = words_of(one);
    std::size_t common = 0;
    for (const std::string& word : words) common += its.count(word);
    const double share = static_cast<double>(common) / static_cast<double>(words.size() + its.size() - common);
    if (share > best_share || (share == best_share && !best)) {
      best = one;
      best_share = share;
    }
  }
  return best;
}

std::string between_quotes(const std::string& text) {
  static const std::regex kQuoted("[\"']([^\"']+)[\"']");
  std::smatch match;
  return std::regex_search(text, match, kQuoted) ? match[1].str() : std::string();
}

/// What to do about a message, in a sentence; empty where the message says it all.
std::string advice(const CompilerMessage& message, const Evidence& evidence) {
  const std::string& text = message.text;
  const auto has = [&](std::string_view part) { return text.find(part) != std::string::npos; };
  const std::string name = between_quotes(text);
  if (has("is undefined") || has("was not declared") || has("undefined reference") || has("undefined symbol") ||
      has("has no member")) {
    static const std::map<std::string_view, std::string_view> kHeaders = {
        {"uint32_t", "<cstdint>"},
        {"uint64_t", "<cstdint>"},
        {"uint8_t", "<cstdint>"},
        {"uint16_t", "<cstdint>"},
        {"int64_t", "<cstdint>"},
        {"CUtensorMap", "<cuda.h>"},
        {"__nv_bfloat16", "<cuda_bf16.h>"},
        {"__half", "<cuda_fp16.h>"},
        {"__nv_bfloat162", "<cuda_bf16.h>"},
        {"TVMFFIEnvGetStream", "<tvm/ffi/extra/c_env_api.h>"},
        {"PFN_cuTensorMapEncodeTiled", "<cudaTypedefs.h>"}};
    if (const auto header = kHeaders.find(name); header != kHeaders.end())
      return fmt::format("include {}", header->second);
    if (has("has no member") && has("TensorView"))
      return "a TensorView has data_ptr(), byte_offset(), ndim(), size(i), stride(i), dtype(), device(), "
             "is_contiguous()";
    if (has("has no member")) return "";
    if (auto near = meant(name, evidence.source.names()); near) return fmt::format("the source has '{}'", *near);
    if (!evidence.knowledge.empty()) {
      if (auto near = meant(name, identifiers(evidence.knowledge)); near)
        return fmt::format("the reference text has '{}': copy its definition into the file", *near);
    }
    return fmt::format("define '{}' in the file: nothing but CUDA's and TVM-FFI's headers is there", name);
  }
  if (has("asm operand type size"))
    return "constraint r takes 32-bit integers, l 64-bit ones and pointers, h 16-bit ones, f float, d double: cast the "
           "operand";
  if (has("asm operand must have scalar type") || has("an asm operand must be"))
    return "pass the elements one by one: an operand is one register";
  if (has("calling a __host__ function")) return "mark the callee __device__";
  if (has("no instance of function template") || has("no instance of overloaded function"))
    return "compare template arguments and argument types with the definition";
  if (has("too few arguments") || has("too many arguments")) return "compare the call with the definition";
  if (has("Insufficient registers"))
    return "give each thread more registers: fewer blocks per multiprocessor in __launch_bounds__, fewer threads, or "
           "smaller "
           "accumulators per thread";
  if (has("not supported on .target") || has("requires .target") || has("Feature '")) {
    if (has("tcgen05") || has("cta_group"))
      return fmt::format(
          "tcgen05 is Blackwell's (sm_100a) and does not exist on {}: use wgmma with mbarriers and wgmma.wait_group "
          "instead, and leave this instruction out",
          evidence.evaluation.target);
    if (has("wgmma")) return "wgmma is Hopper's (sm_90a) alone";
    return fmt::format("the target is {}: use what its instruction set has", evidence.evaluation.target);
  }
  if (has("Duplicate definition"))
    return "the statement is inlined more than once: put { } around its body, so that registers and labels are its "
           "own, and end "
           "label names in %=";
  if (has("too much shared data"))
    return "static shared memory may not exceed 48 KiB in total use here: take dynamic shared memory and "
           "cudaFuncSetAttribute";
  // The rest is about PTX; the same words in a message of nvcc's mean something else.
  if (message.tool != "ptxas") return "";
  if (has("Arguments mismatch"))
    return "the number, kind or width of the operands does not fit the instruction's modifiers";
  if (has("Unknown modifier")) return "";
  if (has("ector size") || has("vector"))
    return "the number of registers in { } does not fit the instruction's shape and types";
  if (has("setmaxnreg")) return "setmaxnreg takes a multiple of 8 from 24 to 256, as an immediate";
  if (has("constant") || has("Immediate") || has("immediate"))
    return "this operand must be known at compile time: an \"n\" constraint with a constexpr or template argument";
  if (has("Label")) return "labels in asm need { } around the statement, or names that end in %=";
  return "";
}

/// The line that defines a function that a message is about.
std::string definition_of(const std::string& name, const Evidence& evidence, std::uint32_t used_at) {
  if (name.empty()) return {};
  for (std::uint32_t line = 1; evidence.source.has(line); ++line) {
    std::string quoted = evidence.source.quote(line);
    if (line != used_at && quoted.find(name + "(") != std::string::npos &&
        (quoted.find("__device__") != std::string::npos || quoted.find("__global__") != std::string::npos))
      return quoted;
  }
  return {};
}

struct Group {
  const CompilerMessage* message = nullptr;
  std::uint64_t count = 0;
  std::set<int> callers;
};

/// Where a message is in the candidate, through what was inlined.
int own_line(const CompilerMessage& message) {
  if (is_candidates(message.where.file)) return message.where.line;
  for (const candidate::SourcePosition& from : message.inlined_from) {
    if (is_candidates(from.file)) return from.line;
  }
  return 0;
}

FeedbackSection section_of(const Group& group, std::size_t number, const Evidence& evidence, std::string& first) {
  const CompilerMessage& message = *group.message;
  const int line = own_line(message);
  const bool of_ptx = message.tool == "ptxas" && message.ptx_line > 0;
  std::string where = line > 0 ? fmt::format("kernel.cu:{}", line) : "";
  if (where.empty() && message.where.line > 0) where = fmt::format("{}:{}", message.where.file, message.where.line);
  const std::string title =
      fmt::format("{}{}: {}", message.tool, message.code.empty() ? "" : " " + message.code, message.text);
  const std::string what = advice(message, evidence);
  FeedbackSection section;
  section.name = fmt::format("error {}", number);
  section.text =
      fmt::format("Error {}{}{}, {}\n", number, where.empty() ? "" : " at ", where, base::shorten_middle(title, 600));
  std::string callers;
  for (const int caller : group.callers) {
    if (callers.size() < 40 && caller != line) callers += fmt::format("{}{}", callers.empty() ? "" : ", ", caller);
  }
  if (!callers.empty()) section.text += fmt::format("  called from kernel.cu:{}\n", callers);
  std::string end;
  if (of_ptx && !message.hint.empty()) end += fmt::format("  PTX grammar: {}\n", parts::first_line(message.hint, 300));
  const bool is_explained = of_ptx && !message.hint.empty() && message.text.starts_with("Arguments mismatch");
  if (!what.empty() && !is_explained) end += fmt::format("  fix: {}\n", what);
  if (group.count > 1)
    end += fmt::format("  and {} more of the same (unrolled or instantiated copies)\n", group.count - 1);
  section.brief = section.text + end;
  if (line > 0) {
    const auto at = static_cast<std::uint32_t>(line);
    const std::uint32_t around = evidence.level == FeedbackLevel::rich && !of_ptx ? 2 : 0;
    section.text += of_ptx ? evidence.source.quote_statement(at) : evidence.source.quote(at, around);
  }
  if (of_ptx && !message.excerpt.empty())
    section.text += fmt::format("  PTX: {}\n", short_instruction(message.excerpt));
  const bool about_call =
      message.text.find("arguments") != std::string::npos || message.text.find("no instance") != std::string::npos;
  if (!of_ptx && about_call && evidence.level != FeedbackLevel::terse) {
    if (const std::string defined =
            definition_of(between_quotes(message.text), evidence, static_cast<std::uint32_t>(line));
        !defined.empty())
      section.text += "  defined as\n" + defined;
  }
  section.text += end;
  if (evidence.level == FeedbackLevel::terse) section.text = section.brief;
  if (number == 1) {
    std::string hint = what;
    if (of_ptx && !message.hint.empty()) {
      // Which instruction it is stands in ptxas's own words.
      const auto colon = message.hint.find(": ");
      hint = parts::first_line(colon == std::string::npos ? message.hint : message.hint.substr(colon + 2), 160);
    }
    first = fmt::format("{}{}{}{}", where.empty() ? "" : "fix " + where + ": ", parts::first_line(message.text, 140),
                        hint.empty() ? "" : "; ", hint);
  }
  return section;
}

}  // namespace

Part compile_errors(const Evidence& evidence) {
  const candidate::CompileReport& report = evidence.evaluation.compile;
  Part part;
  std::vector<Group> groups;
  std::map<std::tuple<std::string, int, std::string>, std::size_t> known;
  for (const CompilerMessage& message : report.messages) {
    if (message.level != MessageLevel::error) continue;
    const auto key = std::tuple(message.where.file, message.where.line, message.text);
    const auto [at, is_new] = known.try_emplace(key, groups.size());
    if (is_new) groups.push_back({&message, 0, {}});
    Group& group = groups[at->second];
    ++group.count;
    for (const candidate::SourcePosition& from : message.inlined_from) {
      if (is_candidates(from.file)) group.callers.insert(from.line);
    }
  }
  const std::size_t most = evidence.level == FeedbackLevel::terse      ? 1
                           : evidence.level == FeedbackLevel::standard ? 6
                                                                       : 20;
  for (std::size_t i = 0; i < groups.size() && i < most; ++i)
    part.sections.push_back(section_of(groups[i], i + 1, evidence, part.first));
  if (groups.size() > most) {
    std::string text = fmt::format("{} more:", counted(groups.size() - most, "different error"));
    for (std::size_t i = most; i < std::min(groups.size(), most + 8); ++i)
      text += fmt::format(" kernel.cu:{}{}", own_line(*groups[i].message),
                          i + 1 < std::min(groups.size(), most + 8) ? "," : "");
    part.sections.push_back({"more errors", text + "\n", ""});
  }
  if (groups.empty()) {
    // A limit, something that is not provided, or words that nothing here understands.
    for (const evaluation::Finding& finding : evidence.evaluation.findings) {
      if (finding.severity == evaluation::Severity::note) continue;
      FeedbackSection section{finding.rule, fmt::format("{}: {}\n", finding.rule, finding.message), ""};
      if (!finding.remedy.empty()) section.text += fmt::format("  fix: {}\n", finding.remedy);
      section.brief = fmt::format("{}: {}\n", finding.rule, parts::first_line(finding.message));
      if (part.first.empty()) part.first = finding.remedy.empty() ? parts::first_line(finding.message) : finding.remedy;
      part.sections.push_back(std::move(section));
    }
    if (!report.log.empty())
      part.sections.push_back(
          {"compiler's text", "The compiler's own text:\n" + indent(base::shorten_middle(report.log, 2000)), ""});
  }
  return part;
}

}  // namespace ptxbench::agent::parts
