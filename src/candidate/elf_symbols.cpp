#include "candidate/elf_symbols.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/files.h"

namespace ptxbench::candidate {
namespace {

class Image {
 public:
  explicit Image(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  std::optional<T> read(std::uint64_t offset) const {
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }

  std::optional<std::string_view> slice(std::uint64_t offset, std::uint64_t size) const {
    if (offset > bytes_.size() || size > bytes_.size() - offset) return std::nullopt;
    return bytes_.substr(offset, size);
  }

 private:
  std::string_view bytes_;
};

std::string name_at(std::string_view table, std::uint64_t offset) {
  if (offset >= table.size()) return "";
  const std::string_view rest = table.substr(offset);
  const auto end = rest.find('\0');
  return end == std::string_view::npos ? "" : std::string(rest.substr(0, end));
}

}  // namespace

Result<DynamicSymbols> parse_dynamic_symbols(std::string_view bytes, std::string_view name) {
  const auto broken = [&](std::string_view what) {
    return input_error("{}: not a usable ELF library: {}", name, what);
  };
  const Image image(bytes);
  const auto header = image.read<Elf64_Ehdr>(0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return broken("no ELF header");
  if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
      header->e_machine != EM_X86_64 || header->e_type != ET_DYN) {
    return broken("not a 64-bit x86-64 shared library");
  }
  if (header->e_shentsize != sizeof(Elf64_Shdr)) return broken("section headers of an unknown size");
  DynamicSymbols result;
  bool found = false;
  for (std::uint64_t i = 0; i < header->e_shnum; ++i) {
    const auto section = image.read<Elf64_Shdr>(header->e_shoff + i * sizeof(Elf64_Shdr));
    if (!section) return broken("section header outside the file");
    if (section->sh_type != SHT_DYNSYM && section->sh_type != SHT_DYNAMIC) continue;
    if (section->sh_link >= header->e_shnum) return broken("no string table");
    const auto strings = image.read<Elf64_Shdr>(header->e_shoff + section->sh_link * sizeof(Elf64_Shdr));
    const auto content = image.slice(section->sh_offset, section->sh_size);
    const auto names = strings ? image.slice(strings->sh_offset, strings->sh_size) : std::nullopt;
    if (!content || !names) return broken("section outside the file");
    const Image part(*content);
    if (section->sh_type == SHT_DYNSYM) {
      found = true;
      for (std::uint64_t at = sizeof(Elf64_Sym); at + sizeof(Elf64_Sym) <= content->size(); at += sizeof(Elf64_Sym)) {
        const auto symbol = *part.read<Elf64_Sym>(at);
        std::string text = name_at(*names, symbol.st_name);
        if (text.empty()) continue;
        (symbol.st_shndx == SHN_UNDEF ? result.undefined : result.exported).push_back(std::move(text));
      }
    } else {
      for (std::uint64_t at = 0; at + sizeof(Elf64_Dyn) <= content->size(); at += sizeof(Elf64_Dyn)) {
        const auto entry = *part.read<Elf64_Dyn>(at);
        if (entry.d_tag == DT_NULL) break;
        if (entry.d_tag == DT_NEEDED) result.needed.push_back(name_at(*names, entry.d_un.d_val));
      }
    }
  }
  if (!found) return broken("no dynamic symbol table");
  std::sort(result.exported.begin(), result.exported.end());
  std::sort(result.undefined.begin(), result.undefined.end());
  return result;
}

Result<DynamicSymbols> read_dynamic_symbols(const std::filesystem::path& library) {
  const auto bytes = base::read_file(library);
  if (!bytes) return tl::unexpected(bytes.error());
  return parse_dynamic_symbols(*bytes, library.filename().string());
}

}  // namespace ptxbench::candidate
