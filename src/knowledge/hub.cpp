#include "knowledge/hub.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <set>

#include "base/files.h"
#include "base/text.h"
#include "base/toml.h"
#include "candidate/language.h"

namespace ptxbench::knowledge {
namespace {

using base::TomlValue;

constexpr std::string_view kFile = "hub.toml";
constexpr std::string_view kTargets[] = {"sm_90a", "sm_100a"};

/// A tag as hub.toml writes it.
struct RawTag {
  std::string target, summary, language;
  std::vector<std::string> extends, fragments;
  std::size_t budget = 0;
  std::uint32_t line = 0;
};

Result<void> check_target(const std::string& target, std::uint32_t line) {
  if (std::find(std::begin(kTargets), std::end(kTargets), target) != std::end(kTargets)) return {};
  return input_error("{}:{}: unknown target '{}'{}", kFile, line, target, base::did_you_mean(target, kTargets));
}

Result<RawTag> read_tag(const std::string& name, const TomlValue& value) {
  RawTag tag;
  tag.line = value.line;
  const auto* members = value.get_if<TomlValue::Table>();
  if (members == nullptr) return input_error("{}:{}: tag {} must be a table", kFile, value.line, name);
  for (const auto& [key, member] : members->items()) {
    if (key == "target" || key == "summary" || key == "language") {
      auto text = base::toml_text(member, kFile, key);
      if (!text) return tl::unexpected(text.error());
      if (key == "language") {
        if (const auto known = candidate::parse_language(*text); !known)
          return input_error("{}:{}: {}", kFile, member.line, known.error().message);
      }
      (key == "target" ? tag.target : key == "summary" ? tag.summary : tag.language) = std::move(*text);
    } else if (key == "extends" || key == "fragments") {
      auto list = base::toml_texts(member, kFile, key);
      if (!list) return tl::unexpected(list.error());
      (key == "extends" ? tag.extends : tag.fragments) = std::move(*list);
    } else if (key == "budget") {
      const auto* number = member.get_if<std::int64_t>();
      if (number == nullptr || *number <= 0)
        return input_error("{}:{}: budget must be a positive integer", kFile, member.line);
      tag.budget = static_cast<std::size_t>(*number);
    } else {
      return input_error(
          "{}:{}: tag {} has an unknown member '{}': target, language, summary, extends, fragments or budget", kFile,
          member.line, name, key);
    }
  }
  return tag;
}

/// Puts a tag together from those it extends.
class Resolver {
 public:
  explicit Resolver(const std::map<std::string, RawTag>& raw) : raw_(raw) {}

  Result<Tag> resolve(const std::string& name) {
    if (const auto done = done_.find(name); done != done_.end()) return done->second;
    const RawTag& own = raw_.at(name);
    if (std::find(open_.begin(), open_.end(), name) != open_.end()) {
      return input_error("{}:{}: tags that extend each other: {} -> {}", kFile, own.line,
                         fmt::format("{}", fmt::join(open_, " -> ")), name);
    }
    open_.push_back(name);
    Tag tag;
    tag.name = name;
    tag.target = own.target;
    tag.summary = own.summary;
    tag.language = own.language;
    tag.budget = own.budget;
    for (const std::string& base_name : own.extends) {
      if (raw_.count(base_name) == 0) {
        std::vector<std::string> names;
        for (const auto& [known, raw] : raw_) names.push_back(known);
        return input_error("{}:{}: {} extends '{}', which is no tag{}", kFile, own.line, name, base_name,
                           base::did_you_mean(base_name, names));
      }
      auto extended = resolve(base_name);
      if (!extended) return extended;
      if (tag.target.empty()) tag.target = extended->target;
      if (tag.language.empty()) tag.language = extended->language;
      if (tag.language != extended->language) {
        return input_error("{}:{}: {} is in {}, but extends {}, which is in {}", kFile, own.line, name, tag.language,
                           base_name, extended->language);
      }
      if (tag.target != extended->target) {
        return input_error("{}:{}: {} is for {}, but extends {}, which is for {}", kFile, own.line, name, tag.target,
                           base_name, extended->target);
      }
      for (const std::string& fragment : extended->fragments) add(tag, fragment);
    }
    for (const std::string& fragment : own.fragments) {
      if (!add(tag, fragment)) {
        return input_error("{}:{}: {} has {} twice", kFile, own.line, name, fragment);
      }
    }
    if (tag.target.empty()) return input_error("{}:{}: {} has no target", kFile, own.line, name);
    if (tag.language.empty()) tag.language = candidate::to_string(candidate::Language::cuda);
    if (tag.budget == 0) return input_error("{}:{}: {} has no budget", kFile, own.line, name);
    open_.pop_back();
    done_[name] = tag;
    return tag;
  }

 private:
  static bool add(Tag& tag, const std::string& fragment) {
    if (std::find(tag.fragments.begin(), tag.fragments.end(), fragment) != tag.fragments.end()) return false;
    tag.fragments.push_back(fragment);
    return true;
  }

  const std::map<std::string, RawTag>& raw_;
  std::map<std::string, Tag> done_;
  std::vector<std::string> open_;
};

using Pairs = std::vector<std::pair<std::string, std::string>>;

Result<Pairs> read_pairs(const TomlValue& value, std::string_view what) {
  const auto* members = value.get_if<TomlValue::Table>();
  if (members == nullptr) return input_error("{}:{}: [{}] must be a table", kFile, value.line, what);
  Pairs pairs;
  for (const auto& [key, member] : members->items()) {
    auto text = base::toml_text(member, kFile, key);
    if (!text) return tl::unexpected(text.error());
    pairs.emplace_back(key, std::move(*text));
  }
  return pairs;
}

Result<Program> read_program(const std::string& file, const TomlValue& value) {
  Program program;
  program.file = file;
  const auto* members = value.get_if<TomlValue::Table>();
  if (members == nullptr) return input_error("{}:{}: program {} must be a table", kFile, value.line, file);
  for (const auto& [key, member] : members->items()) {
    if (key != "targets" && key != "runs") {
      return input_error("{}:{}: program {} has an unknown member '{}': targets or runs", kFile, member.line, file,
                         key);
    }
    auto list = base::toml_texts(member, kFile, key);
    if (!list) return tl::unexpected(list.error());
    for (const std::string& target : *list) {
      if (auto good = check_target(target, member.line); !good) return tl::unexpected(good.error());
    }
    (key == "targets" ? program.targets : program.runs) = std::move(*list);
  }
  if (program.targets.empty()) return input_error("{}:{}: program {} has no targets", kFile, value.line, file);
  for (const std::string& target : program.runs) {
    if (std::find(program.targets.begin(), program.targets.end(), target) == program.targets.end()) {
      return input_error("{}:{}: program {} runs on {}, which it is not compiled for", kFile, value.line, file, target);
    }
  }
  return program;
}

Result<TritonPattern> read_pattern(const std::string& file, const TomlValue& value) {
  TritonPattern pattern;
  pattern.file = file;
  const auto* members = value.get_if<TomlValue::Table>();
  if (members == nullptr) return input_error("{}:{}: pattern {} must be a table", kFile, value.line, file);
  for (const auto& [key, member] : members->items()) {
    if (key == "problem") {
      auto text = base::toml_text(member, kFile, key);
      if (!text) return tl::unexpected(text.error());
      pattern.problem = std::move(*text);
      continue;
    }
    if (key != "targets" && key != "axes") {
      return input_error("{}:{}: pattern {} has an unknown member '{}': targets, problem or axes", kFile, member.line,
                         file, key);
    }
    auto list = base::toml_texts(member, kFile, key);
    if (!list) return tl::unexpected(list.error());
    (key == "targets" ? pattern.targets : pattern.axes) = std::move(*list);
  }
  for (const std::string& target : pattern.targets) {
    if (auto good = check_target(target, value.line); !good) return tl::unexpected(good.error());
  }
  if (pattern.targets.empty() || pattern.problem.empty()) {
    return input_error("{}:{}: pattern {} needs targets and a problem", kFile, value.line, file);
  }
  return pattern;
}

}  // namespace

Result<Hub> Hub::load(const std::filesystem::path& folder) {
  Hub hub;
  hub.folder_ = folder;
  const auto text = read_inside(folder, kFile);
  if (!text) return tl::unexpected(text.error());
  const auto top = base::read_toml(*text, kFile);
  if (!top) return tl::unexpected(top.error());
  auto numbers = Numbers::load(folder / "numbers.toml");
  if (!numbers) return tl::unexpected(numbers.error());
  hub.numbers_ = std::move(*numbers);

  std::map<std::string, RawTag> raw, raw_variants;
  std::vector<std::string> order, variant_order;
  for (const auto& [section, value] : top->get_if<TomlValue::Table>()->items()) {
    if (section == "tags" || section == "variants") {
      const auto* tags = value.get_if<TomlValue::Table>();
      if (tags == nullptr) return input_error("{}:{}: [{}] must be a table", kFile, value.line, section);
      for (const auto& [name, tag] : tags->items()) {
        auto read = read_tag(name, tag);
        if (!read) return tl::unexpected(read.error());
        (section == "tags" ? order : variant_order).push_back(name);
        (section == "tags" ? raw : raw_variants)[name] = std::move(*read);
      }
    } else if (section == "aliases" || section == "absent") {
      auto pairs = read_pairs(value, section);
      if (!pairs) return tl::unexpected(pairs.error());
      (section == "aliases" ? hub.aliases_ : hub.absent_) = std::move(*pairs);
    } else if (section == "programs") {
      const auto* programs = value.get_if<TomlValue::Table>();
      if (programs == nullptr) return input_error("{}:{}: [programs] must be a table", kFile, value.line);
      for (const auto& [file, program] : programs->items()) {
        auto read = read_program(file, program);
        if (!read) return tl::unexpected(read.error());
        hub.programs_.push_back(std::move(*read));
      }
    } else if (section == "triton") {
      const auto* patterns = value.get_if<TomlValue::Table>();
      if (patterns == nullptr) return input_error("{}:{}: [triton] must be a table", kFile, value.line);
      for (const auto& [file, pattern] : patterns->items()) {
        auto read = read_pattern(file, pattern);
        if (!read) return tl::unexpected(read.error());
        hub.triton_.push_back(std::move(*read));
      }
    } else if (section == "words") {
      auto words = base::toml_texts(value, kFile, section);
      if (!words) return tl::unexpected(words.error());
      hub.words_ = std::move(*words);
    } else {
      return input_error("{}:{}: unknown section '{}': tags, variants, aliases, absent, programs, triton or words",
                         kFile, value.line, section);
    }
  }
  if (order.empty()) return input_error("{}: no tags", kFile);

  Resolver resolver(raw);
  for (const std::string& name : order) {
    auto tag = resolver.resolve(name);
    if (!tag) return tl::unexpected(tag.error());
    if (auto good = check_target(tag->target, raw[name].line); !good) return tl::unexpected(good.error());
    hub.tags_.push_back(std::move(*tag));
  }
  for (const std::string& name : variant_order) {
    RawTag& variant = raw_variants[name];
    if (!variant.extends.empty() || variant.budget == 0 || !name.starts_with('-')) {
      return input_error("{}:{}: variant {} begins with '-', has a budget of its own and extends nothing", kFile,
                         variant.line, name);
    }
    Tag tag{name,
            variant.target,
            variant.summary,
            std::string(candidate::to_string(candidate::Language::cuda)),
            variant.fragments,
            variant.budget};
    if (!variant.language.empty()) tag.language = variant.language;
    hub.variants_.push_back(std::move(tag));
  }
  std::set<std::string> names(order.begin(), order.end());
  for (const auto& [alias, tag] : hub.aliases_) {
    if (!names.insert(alias).second)
      return input_error("{}: alias {} is the name of a tag or another alias", kFile, alias);
    if (raw.count(tag) == 0) {
      return input_error("{}: alias {} stands for '{}', which is no tag{}", kFile, alias, tag,
                         base::did_you_mean(tag, order));
    }
  }
  for (const auto& [name, reason] : hub.absent_) {
    if (!names.insert(name).second)
      return input_error("{}: {} is said to be absent, but is a tag or an alias", kFile, name);
  }
  for (const auto* list : {&hub.tags_, &hub.variants_}) {
    for (const Tag& tag : *list) {
      for (const std::string& fragment : tag.fragments) {
        const auto found = read_inside(folder, fragment);
        if (!found)
          return input_error("{}: {} has a document that cannot be read: {}", kFile, tag.name, found.error().message);
      }
    }
  }
  return hub;
}

Result<Tag> Hub::find(std::string_view name) const {
  for (const auto& [absent_name, reason] : absent_) {
    if (absent_name == name) return input_error("there is no pack '{}': {}", name, reason);
  }
  for (const auto& [alias, tag] : aliases_) {
    if (alias == name) return find(tag);
  }
  for (const Tag& tag : tags_) {
    if (tag.name == name) return tag;
  }
  for (const Tag& variant : variants_) {
    if (name.size() <= variant.name.size() || !name.ends_with(variant.name)) continue;
    auto tag = find(name.substr(0, name.size() - variant.name.size()));
    if (!tag) break;
    if (!variant.target.empty() && variant.target != tag->target) {
      return input_error("'{}' is only for packs of {}, and {} is for {}", variant.name, variant.target, tag->name,
                         tag->target);
    }
    if (variant.language != tag->language) {
      return input_error("'{}' is only for packs in {}, and {} is in {}", variant.name, variant.language, tag->name,
                         tag->language);
    }
    tag->name = name;
    tag->summary += "; " + variant.summary;
    tag->budget += variant.budget;
    for (const std::string& fragment : variant.fragments) {
      if (std::find(tag->fragments.begin(), tag->fragments.end(), fragment) == tag->fragments.end()) {
        tag->fragments.push_back(fragment);
      }
    }
    return tag;
  }
  std::vector<std::string> names;
  for (const Tag& tag : tags_) names.push_back(tag.name);
  for (const auto& [alias, tag] : aliases_) names.push_back(alias);
  return input_error("there is no knowledge pack '{}'{}; `ptxbench knowledge list` shows all", name,
                     base::did_you_mean(name, names));
}

Result<std::vector<Rendered>> Hub::render(const Tag& tag) const {
  std::vector<Rendered> documents;
  for (const std::string& fragment : tag.fragments) {
    auto document = render_document(folder_, fragment, numbers_, tag.target);
    if (!document) return tl::unexpected(document.error());
    documents.push_back(std::move(*document));
  }
  return documents;
}

Result<std::string> Hub::text(std::string_view name) const {
  const auto tag = find(name);
  if (!tag) return tl::unexpected(tag.error());
  const auto documents = render(*tag);
  if (!documents) return tl::unexpected(documents.error());
  std::string text;
  for (const Rendered& document : *documents) {
    if (!text.empty()) text += '\n';
    text += document.text;
  }
  return text;
}

Result<std::filesystem::path> find_folder() {
  const char* given = std::getenv("PTXBENCH_KNOWLEDGE");
  if (given != nullptr && *given != '\0') return std::filesystem::path(given);
  const auto home = base::home_dir();
  if (!home) return tl::unexpected(home.error());
  std::filesystem::path folder = *home / "knowledge";
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(folder / kFile, ignored)) {
    return input_error("no knowledge packs: there is no {} in {}; set PTXBENCH_KNOWLEDGE to their folder", kFile,
                       folder.string());
  }
  return folder;
}

Result<std::string> pack_text(std::string_view tag, std::string_view target, std::string_view language) {
  if (tag == "none") return std::string();
  const auto folder = find_folder();
  if (!folder) return tl::unexpected<Error>(folder.error());
  const auto hub = Hub::load(*folder);
  if (!hub) return tl::unexpected<Error>(hub.error());
  const auto known = hub->find(tag);
  if (!known) return tl::unexpected<Error>(known.error());
  if (known->target != target) {
    return input_error("pack {} is for {}, and candidates are judged for {}", tag, known->target, target);
  }
  if (known->language != language) {
    return input_error("pack {} is for {}, and the language of the candidates is {}", tag, known->language, language);
  }
  return hub->text(tag);
}

}  // namespace ptxbench::knowledge
