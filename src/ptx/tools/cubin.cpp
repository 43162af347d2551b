#include "ptx/tools/cubin.h"

#include <elf.h>

#include <cstring>
#include <string_view>

namespace ptxbench::ptx {
namespace {

bool decides_execution(std::string_view name) {
  for (const std::string_view prefix : {".text", ".nv.constant", ".nv.info", ".nv.shared", ".nv.global", ".nv.local",
                                        ".rel", ".nv.callgraph", ".nv.prototype", ".nv.capmerc.text"}) {
    if (!name.starts_with(prefix)) continue;
    // `.rel.debug_line` and its like belong to the line tables.
    return name.find("debug") == std::string_view::npos;
  }
  return false;
}

}  // namespace

Result<std::map<std::string, std::vector<std::byte>>> code_sections(std::span<const std::byte> elf) {
  Elf64_Ehdr header;
  if (elf.size() < sizeof header) return input_error("cubin is shorter than an ELF header");
  std::memcpy(&header, elf.data(), sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return input_error("cubin is not an ELF file");
  const auto section = [&](size_t index, Elf64_Shdr& into) {
    const uint64_t at = header.e_shoff + index * sizeof into;
    if (at + sizeof into > elf.size()) return false;
    std::memcpy(&into, elf.data() + at, sizeof into);
    return into.sh_type == SHT_NOBITS || into.sh_offset + into.sh_size <= elf.size();
  };
  Elf64_Shdr names;
  if (!section(header.e_shstrndx, names)) return input_error("cubin's section names lie outside the file");
  std::map<std::string, std::vector<std::byte>> sections;
  for (size_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr made;
    if (!section(i, made)) return input_error("cubin section {} lies outside the file", i);
    if (made.sh_name >= names.sh_size) return input_error("cubin section {} has a bad name", i);
    const char* text = reinterpret_cast<const char*>(elf.data() + names.sh_offset + made.sh_name);
    const std::string name(text, strnlen(text, names.sh_size - made.sh_name));
    if (!decides_execution(name)) continue;
    std::vector<std::byte>& bytes = sections[name];
    if (made.sh_type == SHT_NOBITS) {
      // Only the size of uninitialised data matters.
      bytes.resize(sizeof made.sh_size);
      std::memcpy(bytes.data(), &made.sh_size, sizeof made.sh_size);
    } else {
      bytes.assign(elf.begin() + static_cast<ptrdiff_t>(made.sh_offset),
                   elf.begin() + static_cast<ptrdiff_t>(made.sh_offset + made.sh_size));
    }
  }
  return sections;
}

}  // namespace ptxbench::ptx
