#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "knowledge/document.h"
#include "knowledge/numbers.h"

namespace ptxbench::knowledge {

/// A pack: which documents a model gets, in which order.
struct Tag {
  std::string name;
  std::string target;  ///< "sm_90a" or "sm_100a"
  std::string summary;
  std::string language = "cuda";       ///< of what it teaches: candidate/language.h
  std::vector<std::string> fragments;  ///< documents, relative to the folder
  std::size_t budget = 0;              ///< of estimated tokens
};

/// A file that is compiled to prove what the documents show.
struct Program {
  std::string file;                  ///< relative to the folder
  std::vector<std::string> targets;  ///< it is compiled for
  std::vector<std::string> runs;     ///< of those, where it is executed by the tests
};

/// A candidate in Triton that documents show, and what it solves.
struct TritonPattern {
  std::string file;                  ///< relative to the folder
  std::vector<std::string> targets;  ///< it is compiled for; on sm_90a it is executed too
  std::string problem;
  std::vector<std::string> axes;  ///< "M=128"
};

/// The knowledge packs of one folder: hub.toml, numbers.toml, documents, headers, patterns and programs
/// (docs/knowledge.md).
class Hub {
 public:
  /// Reads hub.toml and numbers.toml and resolves every tag: unknown or missing documents, cycles, duplicates and wrong
  /// types are errors that name file and line. Documents are read when they are asked for.
  static Result<Hub> load(const std::filesystem::path& folder);

  const std::filesystem::path& folder() const { return folder_; }
  const Numbers& numbers() const { return numbers_; }
  /// Declared tags in the order of hub.toml, without aliases and variants.
  const std::vector<Tag>& tags() const { return tags_; }
  /// Other names of tags: alias, tag.
  const std::vector<std::pair<std::string, std::string>>& aliases() const { return aliases_; }
  /// Endings that any tag may have ("-mha-patched"), with the documents they add.
  const std::vector<Tag>& variants() const { return variants_; }
  /// Published names that have no pack, with the reason.
  const std::vector<std::pair<std::string, std::string>>& absent() const { return absent_; }
  const std::vector<Program>& programs() const { return programs_; }
  const std::vector<TritonPattern>& triton() const { return triton_; }
  /// Words that documents may use as code although no source file holds them, with reasons in hub.toml.
  const std::vector<std::string>& words() const { return words_; }

  /// The tag of this name, alias or variant. The error suggests the nearest name.
  Result<Tag> find(std::string_view name) const;
  /// Its documents, with all they include.
  Result<std::vector<Rendered>> render(const Tag& tag) const;
  /// What a model gets: the documents one after the other.
  Result<std::string> text(std::string_view tag) const;

 private:
  std::filesystem::path folder_;
  Numbers numbers_;
  std::vector<Tag> tags_, variants_;
  std::vector<std::pair<std::string, std::string>> aliases_, absent_;
  std::vector<Program> programs_;
  std::vector<TritonPattern> triton_;
  std::vector<std::string> words_;
};

/// $PTXBENCH_KNOWLEDGE, else knowledge/ in the home folder (base::home_dir: a checkout or an unpacked bundle).
Result<std::filesystem::path> find_folder();

/// The text of a tag of the shipped packs; empty for "none". A pack for another target or language is an error: it
/// would mislead.
Result<std::string> pack_text(std::string_view tag, std::string_view target, std::string_view language = "cuda");

}  // namespace ptxbench::knowledge
