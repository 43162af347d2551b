#include "candidate/identity.h"

#include <elf.h>

#include <cstring>
#include <optional>
#include <regex>
#include <vector>

#include "base/files.h"
#include "base/hash.h"
#include "base/text.h"

namespace ptxbench::candidate {
namespace {

constexpr std::string_view kDeviceCode = ".nv_fatbin";

template <class T>
std::optional<T> read_at(std::string_view bytes, std::uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

/// Whether the section holds one container of device code and nothing else: only then is it left out.
bool is_one_container(std::string_view section) {
  struct Header {
    std::uint32_t magic;
    std::uint16_t version, header_bytes;
    std::uint64_t bytes;
  };
  constexpr std::uint32_t kMagic = 0xba55ed50;
  const auto header = read_at<Header>(section, 0);
  return header && header->magic == kMagic && header->bytes <= section.size() &&
         header->header_bytes + header->bytes == section.size();
}

/// A relocatable ELF object; every offset is checked, since the file follows from what a candidate says.
class Object {
 public:
  static Result<Object> read(std::string_view image) {
    Object object(image);
    if (!object.read_headers()) return input_error("the candidate's host object is no usable ELF file");
    return object;
  }

  /// Adds the sections that are loaded, and how their bytes refer to others.
  Result<void> add_to(base::Sha256& hash) const {
    for (const Elf64_Shdr& section : sections_) {
      const std::string_view name = name_of(section);
      const bool is_loaded = (section.sh_flags & SHF_ALLOC) != 0;
      if (is_loaded && section.sh_type == SHT_NOBITS) {
        hash.update_field(name).update_field(std::to_string(section.sh_size));
      } else if (is_loaded) {
        const auto bytes = contents(section);
        if (!bytes) return input_error("{}: section outside the candidate's host object", name);
        hash.update_field(name).update_field(std::to_string(section.sh_flags));
        if (name != kDeviceCode || !is_one_container(*bytes)) hash.update_field(*bytes);
      } else if (section.sh_type == SHT_RELA && section.sh_info < sections_.size() &&
                 (sections_[section.sh_info].sh_flags & SHF_ALLOC) != 0) {
        hash.update_field(name);
        if (!add_relocations(hash, section)) return input_error("{}: damaged in the candidate's host object", name);
      }
    }
    return {};
  }

 private:
  explicit Object(std::string_view image) : image_(image) {}

  bool read_headers() {
    const auto header = read_at<Elf64_Ehdr>(image_, 0);
    if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64 ||
        header->e_type != ET_REL || header->e_shentsize != sizeof(Elf64_Shdr)) {
      return false;
    }
    for (std::uint64_t i = 0; i < header->e_shnum; ++i) {
      const auto section = read_at<Elf64_Shdr>(image_, header->e_shoff + i * sizeof(Elf64_Shdr));
      if (!section) return false;
      sections_.push_back(*section);
    }
    if (header->e_shstrndx >= sections_.size()) return false;
    const auto names = contents(sections_[header->e_shstrndx]);
    if (names) names_ = *names;
    return names.has_value();
  }

  std::optional<std::string_view> contents(const Elf64_Shdr& section) const {
    if (section.sh_offset > image_.size() || section.sh_size > image_.size() - section.sh_offset) return std::nullopt;
    return image_.substr(section.sh_offset, section.sh_size);
  }

  static std::string_view text_at(std::string_view table, std::uint64_t at) {
    if (at >= table.size()) return {};
    const std::string_view rest = table.substr(at);
    return rest.substr(0, rest.find('\0'));
  }
  std::string_view name_of(const Elf64_Shdr& section) const { return text_at(names_, section.sh_name); }

  bool add_relocations(base::Sha256& hash, const Elf64_Shdr& section) const {
    if (section.sh_link >= sections_.size() || sections_[section.sh_link].sh_link >= sections_.size()) return false;
    const auto entries = contents(section), symbols = contents(sections_[section.sh_link]);
    const auto strings = contents(sections_[sections_[section.sh_link].sh_link]);
    if (!entries || !symbols || !strings) return false;
    for (std::uint64_t at = 0; at + sizeof(Elf64_Rela) <= entries->size(); at += sizeof(Elf64_Rela)) {
      const auto entry = read_at<Elf64_Rela>(*entries, at);
      const auto symbol = read_at<Elf64_Sym>(*symbols, ELF64_R_SYM(entry->r_info) * sizeof(Elf64_Sym));
      if (!symbol) return false;
      hash.update_field(std::to_string(entry->r_offset)).update_field(std::to_string(ELF64_R_TYPE(entry->r_info)));
      hash.update_field(std::to_string(entry->r_addend)).update_field(std::to_string(symbol->st_value));
      // A symbol by its name; a section's own symbol has none.
      hash.update_field(text_at(*strings, symbol->st_name));
      hash.update_field(symbol->st_shndx < sections_.size() ? name_of(sections_[symbol->st_shndx]) : "");
    }
    return true;
  }

  std::string_view image_, names_;
  std::vector<Elf64_Shdr> sections_;
};

}  // namespace

Identity identity_of_ptx(std::string_view ptx) {
  static const std::regex kWorkFolder("\"[^\"\n]*/kernel\\.cu\"");
  base::Sha256 behaviour, places;
  bool in_debug_section = false;
  for (const std::string_view line : base::split_lines(ptx)) {
    const std::string_view text = base::trim(line);
    if (text.starts_with(".section") && text.find(".debug") != std::string_view::npos) in_debug_section = true;
    if (in_debug_section) {
      // Positions of inlined calls name their functions by offsets into this section; the bytes hold a digest of the
      // source in the names of local functions.
      if (text.ends_with('}')) in_debug_section = false;
      continue;
    }
    if (text.starts_with(".file")) {
      places.update_field(std::regex_replace(std::string(text), kWorkFolder, "\"kernel.cu\""));
      continue;
    }
    places.update_field(text);
    if (text.empty() || text.starts_with("//") || text.starts_with(".loc")) continue;
    behaviour.update_field(text);
  }
  return {behaviour.hex(), places.hex()};
}

Result<Identity> identity_of(std::string_view ptx, std::string_view object) {
  Identity identity = identity_of_ptx(ptx);
  base::Sha256 whole;
  whole.update_field(identity.behaviour);
  const auto read = Object::read(object);
  if (!read) return tl::unexpected(read.error());
  if (auto added = read->add_to(whole); !added) return tl::unexpected(added.error());
  identity.behaviour = whole.hex();
  return identity;
}

Result<Identity> identity_of(const Artifact& artifact) {
  const auto ptx = base::read_file(artifact.ptx());
  if (!ptx) return tl::unexpected(ptx.error());
  const auto object = base::read_file(artifact.object());
  if (!object) return tl::unexpected(object.error());
  return identity_of(*ptx, *object);
}

}  // namespace ptxbench::candidate
