#include "knowledge/lint.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>

#include "base/files.h"
#include "base/text.h"
#include "candidate/language.h"
#include "knowledge/source_text.h"
#include "knowledge/tokens.h"

namespace ptxbench::knowledge {
namespace {

namespace fs = std::filesystem;
using Words = std::set<std::string, std::less<>>;

bool starts_word(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// What the compiled files of one target know.
struct Vocabulary {
  Words words;    ///< every word of code and of strings in it
  Words helpers;  ///< functions and types that headers define
  std::map<std::string, std::string, std::less<>> helper_files;
  Words called_by_programs;
};

/// The code spans of a line of Markdown.
std::vector<std::string_view> code_spans(std::string_view line) {
  std::vector<std::string_view> spans;
  std::size_t at = 0;
  while (true) {
    const std::size_t open = line.find('`', at);
    if (open == std::string_view::npos) return spans;
    const std::size_t close = line.find('`', open + 1);
    if (close == std::string_view::npos) return spans;
    spans.push_back(line.substr(open + 1, close - open - 1));
    at = close + 1;
  }
}

/// A line with its code spans blanked.
std::string without_spans(std::string_view line) {
  std::string rest;
  bool inside = false;
  for (const char c : line) {
    if (c == '`') inside = !inside;
    rest += inside || c == '`' ? ' ' : c;
  }
  return rest;
}

constexpr std::string_view kFamilies[] = {"memory",  "race", "proxy", "async",  "mbarrier", "wgmma",
                                          "tcgen05", "tma",  "sync",  "launch", "numeric",  "unsupported"};

/// "proxy.fence-late", "launch.*": a rule id by its look; PTX such as `wgmma.fence.sync` is told apart by what follows.
bool looks_like_rule(std::string_view span) {
  const std::size_t dot = span.find('.');
  if (dot == std::string_view::npos || dot + 1 >= span.size()) return false;
  const std::string_view rest = span.substr(dot + 1);
  if (std::find(std::begin(kFamilies), std::end(kFamilies), span.substr(0, dot)) == std::end(kFamilies)) return false;
  return rest == "*" || std::all_of(rest.begin(), rest.end(), [](char c) {
           return std::islower(static_cast<unsigned char>(c)) != 0 || c == '-';
         });
}

class Linter {
 public:
  Linter(const Hub& hub, const LintOptions& options) : hub_(hub), options_(options) {}

  Result<std::vector<Fault>> run() {
    if (options_.hazard_rules.empty()) {
      fault("rule-id", "docs/hazards.md", "not found: rule ids cannot be checked");
    } else {
      auto ids = read_rule_ids(options_.hazard_rules);
      if (!ids) return tl::unexpected(ids.error());
      rules_ = std::move(*ids);
    }
    std::vector<Tag> tags;
    if (options_.tag.empty()) {
      tags = hub_.tags();
      // Each variant once, on a tag of its target that has the most documents.
      for (const Tag& variant : hub_.variants()) {
        const Tag* widest = nullptr;
        for (const Tag& tag : hub_.tags()) {
          if (!variant.target.empty() && tag.target != variant.target) continue;
          if (variant.language != tag.language) continue;
          if (widest == nullptr || tag.fragments.size() > widest->fragments.size()) widest = &tag;
        }
        if (widest == nullptr) continue;
        auto found = hub_.find(widest->name + variant.name);
        if (!found) return tl::unexpected(found.error());
        tags.push_back(std::move(*found));
      }
    } else {
      auto tag = hub_.find(options_.tag);
      if (!tag) return tl::unexpected(tag.error());
      tags.push_back(std::move(*tag));
    }
    for (const Tag& tag : tags) check_tag(tag);
    if (options_.tag.empty()) check_folder();
    return std::move(faults_);
  }

 private:
  void fault(std::string rule, std::string place, std::string message) {
    const std::string key = rule + place + message;
    if (seen_.insert(key).second) faults_.push_back({std::move(rule), std::move(place), std::move(message)});
  }

  const Vocabulary& vocabulary(const std::string& target, const std::string& language = "cuda") {
    const std::string key = language == "cuda" ? target : target + " " + language;
    const auto known = vocabularies_.find(key);
    if (known != vocabularies_.end()) return known->second;
    Vocabulary& made = vocabularies_[key];
    for (const CompileJob& job : compile_jobs(hub_, target)) {
      if ((candidate::language_of_file(job.file) == candidate::Language::cuda) != (language == "cuda")) continue;
      const auto text = read_inside(hub_.folder(), job.file);
      if (!text) {
        fault("document", job.file, text.error().message);
        continue;
      }
      const CodeNames names = read_names(*text);
      made.words.insert(names.words.begin(), names.words.end());
      if (job.file.find("/include/") != std::string::npos) {
        for (const std::string& helper : names.helpers) {
          made.helpers.insert(helper);
          made.helper_files.emplace(helper, job.file);
        }
        header_calls_[target].insert(names.called.begin(), names.called.end());
      } else {
        made.called_by_programs.insert(names.called.begin(), names.called.end());
        made.called_by_programs.insert(names.words.begin(), names.words.end());
      }
    }
    for (const std::string& word : hub_.words()) made.words.insert(word);
    return made;
  }

  void check_tag(const Tag& tag) {
    const auto documents = hub_.render(tag);
    if (!documents) {
      fault("document", tag.name, documents.error().message);
      return;
    }
    const Vocabulary& known = vocabulary(tag.target, tag.language);
    CodeNames shown;
    std::string text;
    for (const Rendered& document : *documents) {
      CodeNames names = read_names(document.code);
      shown.helpers.merge(names.helpers);
      shown.defined.merge(names.defined);
      shown.called.merge(names.called);
      text += document.text + "\n";
    }
    for (const std::string& name : shown.called) {
      if (known.helpers.count(name) != 0 && shown.defined.count(name) == 0 && shown.helpers.count(name) == 0) {
        fault("helper", tag.name,
              fmt::format("shown code uses {}, which {} defines and the tag does not show", name,
                          known.helper_files.find(name)->second));
      }
    }
    for (std::size_t i = 0; i < documents->size(); ++i) check_pieces(tag.fragments[i], (*documents)[i], shown);
    for (std::size_t i = 0; i < documents->size(); ++i) {
      check_prose(tag, tag.fragments[i], (*documents)[i].prose, known, shown);
    }
    const std::size_t tokens = estimate_tokens(text);
    if (tokens > tag.budget) {
      fault("budget", tag.name, fmt::format("about {} tokens, the budget is {}", tokens, tag.budget));
    } else if (tokens < tag.budget / 2) {
      fault("budget", tag.name, fmt::format("about {} tokens: a budget of {} says nothing", tokens, tag.budget));
    }
  }

  /// A pattern's own functions, types and constants that shown pieces of it use must be shown too.
  void check_pieces(const std::string& place, const Rendered& document, const CodeNames& shown) {
    const CodeNames used = read_names(document.code);
    for (const std::string& source : document.sources) {
      if (source.find("/patterns/") == std::string::npos) continue;
      const auto text = read_inside(hub_.folder(), source);
      if (!text) continue;
      const CodeNames all = read_names(*text);
      for (const std::string& name : used.words) {
        const bool constant =
            name.size() > 1 && name[0] == 'k' && std::isupper(static_cast<unsigned char>(name[1])) != 0;
        if (all.helpers.count(name) == 0 && !(constant && all.defined.count(name) != 0)) continue;
        if (shown.defined.count(name) != 0 || shown.helpers.count(name) != 0) continue;
        fault("helper", place,
              fmt::format("shown code uses {}, which {} defines in a part that is not shown", name, source));
      }
    }
  }

  void check_prose(const Tag& tag, const std::string& file, std::string_view prose, const Vocabulary& known,
                   const CodeNames& shown) {
    std::size_t number = 0;
    for (const std::string_view line : base::split_lines(prose)) {
      const std::string place = fmt::format("{}:{}", file, ++number);
      if (std::count(line.begin(), line.end(), '`') % 2 != 0) fault("document", place, "a ` without its partner");
      for (const std::string_view span : code_spans(line)) check_span(tag, place, span, known, shown);
      check_numbers(tag, place, without_spans(line));
    }
  }

  void check_span(const Tag& tag, const std::string& place, std::string_view span, const Vocabulary& known,
                  const CodeNames& shown) {
    if (looks_like_rule(span)) {
      const bool exists = std::any_of(rules_.begin(), rules_.end(), [&](const std::string& id) {
        return id == span || (id.ends_with('*') && span.starts_with(std::string_view(id).substr(0, id.size() - 1)));
      });
      // `wgmma.fence` is both a rule and an instruction.
      if (!exists && !all_words_known(span, known.words)) {
        fault("rule-id", place, fmt::format("`{}` is no rule of docs/hazards.md", span));
      }
      return;
    }
    for (std::size_t at = 0; at < span.size();) {
      if (!in_word(span[at])) {
        ++at;
        continue;
      }
      std::size_t end = at;
      while (end < span.size() && in_word(span[end])) ++end;
      const std::string_view word = span.substr(at, end - at);
      const bool called = end < span.size() && (span[end] == '(' || span[end] == '<');
      at = end;
      if (!starts_word(word.front()) && known.words.count(word) == 0) {
        // A literal: digits, 0x..., 1u.
        if (std::isdigit(static_cast<unsigned char>(word.front())) != 0 &&
            word.find_first_not_of("0123456789abcdefxulfABCDEF") == std::string_view::npos)
          continue;
      }
      if (known.words.count(word) == 0) {
        fault("identifier", place,
              fmt::format("`{}`: no file that is compiled for {} has '{}'", span, tag.target, word));
      } else if ((called || word.find('_') != std::string_view::npos) && known.helpers.count(word) != 0 &&
                 shown.defined.count(word) == 0 && shown.helpers.count(word) == 0) {
        fault("helper", place, fmt::format("`{}`: {} does not show {}", span, tag.name, word));
      }
    }
  }

  static bool all_words_known(std::string_view span, const Words& words) {
    for (const std::string_view word : base::split(span, '.')) {
      if (words.count(word) == 0) return false;
    }
    return true;
  }

  void check_numbers(const Tag& tag, const std::string& place, std::string_view line) {
    for (std::size_t at = 0; at < line.size();) {
      if (std::isdigit(static_cast<unsigned char>(line[at])) == 0) {
        // A word such as sm_90a or fp32 is no number.
        if (starts_word(line[at])) {
          while (at < line.size() && in_word(line[at])) ++at;
        } else {
          ++at;
        }
        continue;
      }
      std::string digits;
      while (at < line.size() && (std::isdigit(static_cast<unsigned char>(line[at])) != 0 ||
                                  (line[at] == ',' && at + 1 < line.size() &&
                                   std::isdigit(static_cast<unsigned char>(line[at + 1])) != 0))) {
        if (line[at] != ',') digits += line[at];
        ++at;
      }
      const auto value = base::parse_u64(digits);
      if (value && *value < 100) continue;
      const auto facts = hub_.numbers().of(tag.target);
      const bool known = std::any_of(facts.begin(), facts.end(), [&](const Number* fact) {
        return (value && fact->value == static_cast<std::int64_t>(*value)) || says(fact->text, digits);
      });
      if (!known) fault("number", place, fmt::format("{} is not in numbers.toml for {}", digits, tag.target));
    }
  }

  /// Whether a text contains these digits as a number of its own.
  static bool says(std::string_view text, std::string_view digits) {
    std::string current;
    for (const char c : text) {
      if (c == ',') continue;
      if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
        current += c;
        continue;
      }
      if (current == digits) return true;
      current.clear();
    }
    return current == digits;
  }

  void check_folder() {
    for (const std::string& contradiction : hub_.numbers().contradictions())
      fault("number", "numbers.toml", contradiction);
    Words used;
    for (const auto* list : {&hub_.tags(), &hub_.variants()}) {
      for (const Tag& tag : *list) {
        for (const std::string& fragment : tag.fragments) {
          used.insert(fragment);
          for (const std::string_view target : {"sm_90a", "sm_100a"}) {
            if (!tag.target.empty() && tag.target != target) continue;
            const auto document = render_document(hub_.folder(), fragment, hub_.numbers(), target);
            if (document) used.insert(document->sources.begin(), document->sources.end());
          }
        }
      }
    }
    for (const TritonPattern& pattern : hub_.triton()) {
      // Shown by documents, so not used by being there.
      if (const auto text = read_inside(hub_.folder(), pattern.file); !text)
        fault("document", pattern.file, text.error().message);
    }
    for (const Program& program : hub_.programs()) {
      used.insert(program.file);
      if (const auto text = read_inside(hub_.folder(), program.file); !text)
        fault("document", program.file, text.error().message);
    }
    std::error_code error;
    for (auto it = fs::recursive_directory_iterator(hub_.folder(), error); it != fs::recursive_directory_iterator();
         it.increment(error)) {
      if (!it->is_regular_file()) continue;
      const std::string file = it->path().lexically_relative(hub_.folder()).generic_string();
      if (file == "hub.toml" || file == "numbers.toml" || used.count(file) != 0) continue;
      // Headers of programs and those that only programs include are proved by these.
      if (file.ends_with(".cuh") && included_somewhere(it->path().filename().string())) continue;
      fault("unreachable", file, "no tag, document or program uses it");
    }
    for (const std::string_view target : {"sm_90a", "sm_100a"}) {
      const Vocabulary& known = vocabulary(std::string(target));
      for (const std::string& helper : known.helpers) {
        // Macros are proved by what they define.
        if (std::none_of(helper.begin(), helper.end(),
                         [](char c) { return std::islower(static_cast<unsigned char>(c)) != 0; }))
          continue;
        if (known.called_by_programs.count(helper) == 0 && header_calls_[std::string(target)].count(helper) == 0) {
          fault("untested", known.helper_files.find(helper)->second,
                fmt::format("no pattern, program or tested helper for {} uses {}", target, helper));
        }
      }
    }
  }

  bool included_somewhere(const std::string& name) {
    for (const CompileJob& job : compile_jobs(hub_)) {
      const auto text = read_inside(hub_.folder(), job.file);
      if (!text) continue;
      for (const std::string_view line : base::split_lines(*text)) {
        if (line.starts_with("#include \"") &&
            (line.ends_with("/" + name + "\"") || line.ends_with("\"" + name + "\""))) {
          return true;
        }
      }
    }
    return false;
  }

  const Hub& hub_;
  const LintOptions& options_;
  std::vector<std::string> rules_;
  std::map<std::string, Vocabulary> vocabularies_;
  std::map<std::string, Words> header_calls_;
  std::vector<Fault> faults_;
  std::set<std::string> seen_;
};

}  // namespace

Result<std::vector<Fault>> lint(const Hub& hub, const LintOptions& options) { return Linter(hub, options).run(); }

Result<std::vector<std::string>> read_rule_ids(const fs::path& document) {
  const auto text = base::read_file(document);
  if (!text) return tl::unexpected(text.error());
  std::vector<std::string> ids;
  for (const std::string_view line : base::split_lines(*text)) {
    if (!line.starts_with("| `")) continue;
    const auto cells = base::split(line, '|');
    if (cells.size() < 4) continue;
    for (const std::string_view span : code_spans(cells[1])) {
      if (span.find('.') != std::string_view::npos) ids.emplace_back(span);
    }
  }
  if (ids.empty()) return input_error("{}: no table of rules", document.string());
  return ids;
}

}  // namespace ptxbench::knowledge
