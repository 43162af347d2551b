#include "cuda_shim/program_check.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <set>

#include "base/hash.h"
#include "cuda_shim/fatbin.h"
#include "cuda_shim/shared_memory.h"

namespace ptxbench::cuda_shim {
namespace {

constexpr uint64_t kMaxTableBytes = 256ull << 20;
constexpr uint64_t kMaxFatbinBytes = 2ull << 30;
constexpr char kSharedRemedy[] =
    "link the shared runtime with `nvcc -cudart shared`; for a build system you cannot edit: "
    "export NVCC_APPEND_FLAGS='-cudart shared -lineinfo -gencode arch=compute_90a,code=[sm_90a,compute_90a]'";

/// Reads pieces of the file; nothing is mapped, so a file that shrinks meanwhile is a short read, not a fault.
class File {
 public:
  File(OwnedFd fd, uint64_t bytes) : fd_(std::move(fd)), bytes_(bytes) {}
  uint64_t bytes() const { return bytes_; }
  std::optional<std::string> read(uint64_t offset, uint64_t length) const {
    if (offset > bytes_ || length > bytes_ - offset) return std::nullopt;
    std::string data(static_cast<std::size_t>(length), '\0');
    std::size_t got = 0;
    while (got < data.size()) {
      const ssize_t count = ::pread(fd_.get(), data.data() + got, data.size() - got, static_cast<off_t>(offset + got));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return std::nullopt;
      got += static_cast<std::size_t>(count);
    }
    return data;
  }
  template <class T>
  std::optional<T> object(uint64_t offset) const {
    const auto data = read(offset, sizeof(T));
    if (!data) return std::nullopt;
    T value;
    std::memcpy(&value, data->data(), sizeof value);
    return value;
  }
  template <class T>
  std::optional<std::vector<T>> table(uint64_t offset, uint64_t count) const {
    if (count > kMaxTableBytes / sizeof(T)) return std::nullopt;
    const auto data = read(offset, count * sizeof(T));
    if (!data) return std::nullopt;
    std::vector<T> values(static_cast<std::size_t>(count));
    if (!values.empty()) std::memcpy(values.data(), data->data(), data->size());
    return values;
  }

 private:
  OwnedFd fd_;
  uint64_t bytes_;
};

std::string string_at(const std::string& table, uint64_t offset) {
  if (offset >= table.size()) return {};
  return table.c_str() + offset;  // std::string is NUL-terminated whatever the file holds
}

struct Elf {
  bool has_interpreter = false, has_rpath = false;
  std::vector<std::string> needed;
  std::set<std::string> imports;
  std::string fatbin;  ///< contents of .nv_fatbin
  bool has_fatbin = false;
};

std::optional<Elf> read_elf(const File& file, const Elf64_Ehdr& header) {
  Elf elf;
  const auto segments =
      file.table<Elf64_Phdr>(header.e_phoff, header.e_phentsize == sizeof(Elf64_Phdr) ? header.e_phnum : 0);
  if (!segments) return std::nullopt;
  for (const Elf64_Phdr& segment : *segments) elf.has_interpreter |= segment.p_type == PT_INTERP;
  const auto sections =
      file.table<Elf64_Shdr>(header.e_shoff, header.e_shentsize == sizeof(Elf64_Shdr) ? header.e_shnum : 0);
  if (!sections) return std::nullopt;
  const auto contents = [&](const Elf64_Shdr& section, uint64_t limit) -> std::optional<std::string> {
    if (section.sh_type == SHT_NOBITS || section.sh_size > limit) return std::nullopt;
    return file.read(section.sh_offset, section.sh_size);
  };
  std::string names;
  if (header.e_shstrndx < sections->size())
    names = contents((*sections)[header.e_shstrndx], kMaxTableBytes).value_or("");
  for (const Elf64_Shdr& section : *sections) {
    if (string_at(names, section.sh_name) == ".nv_fatbin") {
      elf.has_fatbin = true;
      elf.fatbin = contents(section, kMaxFatbinBytes).value_or("");
    }
    if (section.sh_link >= sections->size()) continue;
    if (section.sh_type == SHT_DYNAMIC) {
      const std::string strings = contents((*sections)[section.sh_link], kMaxTableBytes).value_or("");
      const auto entries = file.table<Elf64_Dyn>(section.sh_offset, section.sh_size / sizeof(Elf64_Dyn));
      for (const Elf64_Dyn& entry : entries.value_or(std::vector<Elf64_Dyn>())) {
        if (entry.d_tag == DT_NEEDED) elf.needed.push_back(string_at(strings, entry.d_un.d_val));
        if (entry.d_tag == DT_RPATH) elf.has_rpath = true;
      }
    }
    if (section.sh_type == SHT_DYNSYM) {
      const std::string strings = contents((*sections)[section.sh_link], kMaxTableBytes).value_or("");
      const auto symbols = file.table<Elf64_Sym>(section.sh_offset, section.sh_size / sizeof(Elf64_Sym));
      for (const Elf64_Sym& symbol : symbols.value_or(std::vector<Elf64_Sym>())) {
        if (symbol.st_shndx == SHN_UNDEF) elf.imports.insert(string_at(strings, symbol.st_name));
      }
    }
  }
  return elf;
}

}  // namespace

Result<ProgramInfo> check_program(const std::filesystem::path& program) {
  const std::string name = program.string();
  OwnedFd fd(::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0)
    return input_error("cannot open program {}: {}", name, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return input_error("{} is not a program but a folder or a special file", name);
  const File file(std::move(fd), static_cast<uint64_t>(status.st_size));
  ProgramInfo info;
  if (file.read(0, 2) == "#!") {
    info.is_script = true;
    return info;
  }
  const auto header = file.object<Elf64_Ehdr>(0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) {
    const bool is_source = program.extension() == ".cu" || program.extension() == ".ptx";
    return input_error("{} is not a program (no ELF file){}", name,
                       is_source ? "; compile it first: nvcc -cudart shared -lineinfo -gencode "
                                   "arch=compute_90a,code=[sm_90a,compute_90a] FILE -o PROGRAM"
                                 : "");
  }
  if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != EM_X86_64) {
    return input_error("{} is a program for another machine; 64-bit x86 is needed", name);
  }
  if (header->e_type != ET_EXEC && header->e_type != ET_DYN) {
    return input_error("{} is an object file, not a program; link it first", name);
  }
  const auto elf = read_elf(file, *header);
  if (!elf) return input_error("{} is a damaged ELF file", name);
  info.has_device_code = elf->has_fatbin;
  info.uses_runtime = std::find(elf->needed.begin(), elf->needed.end(), "libcudart.so.13") != elf->needed.end();
  info.needs_preload = elf->has_rpath;
  for (const std::string& library : elf->needed) {
    if (library.starts_with("libcudart.so.") && library != "libcudart.so.13") {
      return input_error("{} needs {}: it was built with another CUDA version; rebuild it with CUDA 13.0", name,
                         library);
    }
  }
  if (!elf->has_fatbin) return info;
  if (!elf->has_interpreter) {
    return input_error("{} is linked statically as a whole, so no library can stand in for CUDA's; {}", name,
                       kSharedRemedy);
  }
  if (!elf->imports.contains("__cudaRegisterFatBinary")) {
    return input_error("{} has the CUDA runtime linked in statically, so it cannot be run on the emulated device; {}",
                       name, kSharedRemedy);
  }
  const auto entries = parse_fatbin(std::as_bytes(std::span(elf->fatbin)));
  if (entries) {
    const bool usable = std::any_of(entries->begin(), entries->end(), [](const FatbinEntry& entry) {
      return entry.kind == FatbinKind::ptx &&
             (entry.architecture_specific ? entry.architecture == 90 : entry.architecture <= 90);
    });
    if (!usable) return input_error("{} has no PTX for an sm_90a device, only other code; {}", name, kPtxRemedy);
  }
  return info;
}

Result<std::set<std::string>> ptx_digests(const std::filesystem::path& program) {
  OwnedFd fd(::open(program.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0)
    return input_error("cannot open {}: {}", program.string(), std::strerror(errno));
  const File file(std::move(fd), static_cast<uint64_t>(status.st_size));
  const auto header = file.table<Elf64_Ehdr>(0, 1);
  const auto elf = header ? read_elf(file, header->front()) : std::nullopt;
  if (!elf) return input_error("{} is no ELF file", program.string());
  const auto entries = parse_fatbin(std::as_bytes(std::span(elf->fatbin)));
  if (!entries) return tl::unexpected<Error>(entries.error());
  std::set<std::string> out;
  for (const FatbinEntry& entry : *entries) {
    if (entry.kind != FatbinKind::ptx) continue;
    auto text = unpack(entry);
    if (!text) return tl::unexpected<Error>(text.error());
    out.insert(base::sha256_hex(std::string_view(*text).substr(0, text->find('\0'))));
  }
  return out;
}

}  // namespace ptxbench::cuda_shim
