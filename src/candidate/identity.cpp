#include "candidate/identity.h"

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/hash.h"
#include "base/text.h"
#include "ptx/lexer.h"
#include "ptx/parser.h"
#include "ptx/printer.h"

namespace ptxbench::candidate {
namespace {

constexpr std::string_view kDeviceCode = ".nv_fatbin";
/// What is registered when the library is loaded: a pointer to the container.
constexpr std::string_view kDeviceRecord = ".nvFatBinSegment";

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
        add_head(hash, section);
        hash.update_field(std::to_string(section.sh_size));
      } else if (is_loaded) {
        const auto bytes = contents(section);
        if (!bytes) return input_error("{}: section outside the candidate's host object", name);
        add_head(hash, section);
        if (!is_device_code_alone(section, *bytes)) hash.update_field(*bytes);
      } else if (section.sh_type == SHT_RELA && section.sh_info < sections_.size() &&
                 (sections_[section.sh_info].sh_flags & SHF_ALLOC) != 0) {
        hash.update_field(name).update_field(std::to_string(section.sh_info));
        if (!add_relocations(hash, section)) return input_error("{}: damaged in the candidate's host object", name);
      } else if (section.sh_type == SHT_SYMTAB) {
        if (!add_symbols(hash, section)) return input_error("{}: damaged in the candidate's host object", name);
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

  /// Whether the section is nvcc's container of device code, which is that of the PTX, and host code can neither have
  /// put bytes into it nor see them: it holds nvcc's one symbol, at its start, and only nvcc's own record refers to it.
  bool is_device_code_alone(const Elf64_Shdr& section, std::string_view bytes) const {
    if (name_of(section) != kDeviceCode || !is_one_container(bytes)) return false;
    const auto index = static_cast<std::size_t>(&section - sections_.data());
    bool has_symbol = false;
    for (const Elf64_Shdr& table : sections_) {
      if (table.sh_type == SHT_SYMTAB) {
        const auto symbols = contents(table);
        if (!symbols || table.sh_link >= sections_.size()) return false;
        const auto strings = contents(sections_[table.sh_link]);
        if (!strings) return false;
        for (std::uint64_t at = 0; at + sizeof(Elf64_Sym) <= symbols->size(); at += sizeof(Elf64_Sym)) {
          const auto symbol = read_at<Elf64_Sym>(*symbols, at);
          if (symbol->st_shndx != index) continue;
          const bool is_section = ELF64_ST_TYPE(symbol->st_info) == STT_SECTION;
          const bool is_nvcc = text_at(*strings, symbol->st_name) == "fatbinData";
          if (symbol->st_value != 0 || (!is_section && !is_nvcc)) return false;
          has_symbol = has_symbol || is_nvcc;
        }
      } else if (table.sh_type == SHT_REL) {
        return false;  // not of this machine
      } else if (table.sh_type == SHT_RELA && table.sh_info < sections_.size()) {
        const Elf64_Shdr& user = sections_[table.sh_info];
        const bool is_other = (user.sh_flags & SHF_ALLOC) != 0 && name_of(user) != kDeviceRecord;
        if (is_other && refers_to(table, index)) return false;
      }
    }
    return has_symbol;
  }

  /// Whether a table of relocations names a symbol of the section; true too if that cannot be told.
  bool refers_to(const Elf64_Shdr& table, std::size_t index) const {
    if (table.sh_link >= sections_.size()) return true;
    const auto entries = contents(table), symbols = contents(sections_[table.sh_link]);
    if (!entries || !symbols) return true;
    for (std::uint64_t at = 0; at + sizeof(Elf64_Rela) <= entries->size(); at += sizeof(Elf64_Rela)) {
      const auto entry = read_at<Elf64_Rela>(*entries, at);
      const auto symbol = read_at<Elf64_Sym>(*symbols, ELF64_R_SYM(entry->r_info) * sizeof(Elf64_Sym));
      if (!symbol || symbol->st_shndx == index) return true;
    }
    return false;
  }

  void add_head(base::Sha256& hash, const Elf64_Shdr& section) const {
    hash.update_field(name_of(section)).update_field(std::to_string(section.sh_type));
    hash.update_field(std::to_string(section.sh_flags)).update_field(std::to_string(section.sh_addralign));
  }

  /// The symbols that others can see: which code is called by which name is written nowhere else.
  bool add_symbols(base::Sha256& hash, const Elf64_Shdr& section) const {
    if (section.sh_link >= sections_.size()) return false;
    const auto symbols = contents(section), strings = contents(sections_[section.sh_link]);
    if (!symbols || !strings) return false;
    for (std::uint64_t at = 0; at + sizeof(Elf64_Sym) <= symbols->size(); at += sizeof(Elf64_Sym)) {
      const auto symbol = read_at<Elf64_Sym>(*symbols, at);
      if (ELF64_ST_BIND(symbol->st_info) == STB_LOCAL) continue;
      hash.update_field(text_at(*strings, symbol->st_name)).update_field(std::to_string(symbol->st_info));
      hash.update_field(std::to_string(symbol->st_other)).update_field(std::to_string(symbol->st_shndx));
      hash.update_field(std::to_string(symbol->st_value)).update_field(std::to_string(symbol->st_size));
    }
    return true;
  }

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
      hash.update_field(std::to_string(symbol->st_shndx));
    }
    return true;
  }

  std::string_view image_, names_;
  std::vector<Elf64_Shdr> sections_;
};

/// Of a text that nothing is known about but its bytes.
Identity identity_of_text(std::string_view text) {
  return {base::Sha256().update_field("text").update_field(text).hex(), ""};
}

/// The tokens of the text but for those in `left_out`: comments and white space are gone, however they are written,
/// and nothing else is. Nothing if some text is not made of tokens.
std::optional<std::string> tokens_without(const std::vector<ptx::Module::TextRange>& left_out, std::string_view text) {
  // Ends the text for those who take it for a C string, as in the containers of device code.
  if (text.find('\0') != std::string_view::npos) return std::nullopt;
  std::string tokens;
  tokens.reserve(text.size());
  const auto add = [&](std::string_view part) {
    ptx::Lexer lexer(part);
    for (;;) {
      const ptx::Token token = lexer.next();
      if (token.kind == ptx::TokenKind::invalid) return false;
      if (token.kind == ptx::TokenKind::end) return true;
      // No token holds the end of a line.
      tokens += static_cast<char>('a' + static_cast<int>(token.kind));
      tokens += token.text;
      // Parts of a name need not be tokens of their own: `cp.async.bulk.tensor.2d`.
      if (token.kind == ptx::TokenKind::identifier || token.kind == ptx::TokenKind::dotted) {
        tokens += lexer.dotted_tail();
      }
      tokens += '\n';
    }
  };
  std::size_t at = 0;
  for (const ptx::Module::TextRange& range : left_out) {
    if (range.begin < at || range.end < range.begin || range.end > text.size()) return std::nullopt;
    if (!add(text.substr(at, range.begin - at))) return std::nullopt;
    at = range.end;
  }
  if (!add(text.substr(at))) return std::nullopt;
  return tokens;
}

/// Everything that a report can say about where something stands.
std::string places_of(const ptx::Module& module) {
  base::Sha256 hash;
  const auto add = [&](std::initializer_list<std::uint64_t> numbers) {
    std::string text;
    for (const std::uint64_t number : numbers) text += std::to_string(number) + ' ';
    hash.update_field(text);
  };
  for (const ptx::SourceFile& file : module.files) {
    add({file.index});
    hash.update_field(base::candidate_file_name(file.path));
  }
  const auto add_variables = [&](const std::vector<ptx::Variable>& variables) {
    add({variables.size()});
    for (const ptx::Variable& variable : variables) add({variable.position.line, variable.position.column});
  };
  add_variables(module.variables);
  for (const ptx::Function& function : module.functions) {
    add({function.position.line, function.position.column, function.call_sites.size(), function.instructions.size()});
    add_variables(function.variables);
    for (const ptx::CallSite& site : function.call_sites) add({site.file, site.line, site.column, site.parent});
    for (const ptx::Instruction& one : function.instructions) {
      add({one.position.line, one.position.column, one.file, one.line, one.inlined_at});
    }
  }
  return hash.hex();
}

/// The module's text without debug information: what the emulator takes the tokens for. The tokens decide it, except
/// where white space between them matters.
std::string without_places(ptx::Module module) {
  std::erase_if(module.items, [](const ptx::Module::Item& item) {
    return item.kind == ptx::Module::Item::Kind::text &&
           (item.text.starts_with(".file ") || item.text.starts_with(".section .debug"));
  });
  for (ptx::Function& function : module.functions) {
    std::erase_if(function.statements,
                  [](const ptx::Statement& statement) { return statement.kind == ptx::StatementKind::location; });
  }
  return ptx::print_module(module);
}

}  // namespace

Identity identity_of_ptx(std::string_view ptx) {
  auto module = ptx::parse_module(ptx, "kernel.ptx");
  const auto tokens = module ? tokens_without(module->debug_text, ptx) : std::nullopt;
  if (!tokens) return identity_of_text(ptx);
  const std::string places = places_of(*module);
  // Printed after the places are known, since it takes them away.
  const std::string printed = without_places(std::move(*module));
  return {base::Sha256().update_field("module").update_field(*tokens).update_field(printed).hex(), places};
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
