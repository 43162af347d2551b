#include "candidate/machine_code.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "base/process.h"
#include "base/text.h"
#include "base/toolkit.h"

namespace ptxbench::candidate {
namespace {

/// "/*0bd0*/" at the start of the text; takes it off.
std::optional<std::uint32_t> take_address(std::string_view& text) {
  if (!text.starts_with("/*")) return std::nullopt;
  const std::size_t end = text.find("*/");
  if (end == std::string_view::npos || end < 6 || end > 12) return std::nullopt;
  std::uint32_t value = 0;
  const auto [stop, error] = std::from_chars(text.data() + 2, text.data() + end, value, 16);
  if (error != std::errc() || stop != text.data() + end) return std::nullopt;
  text = base::trim(text.substr(end + 2));
  return value;
}

std::string_view base_of(std::string_view opcode) { return opcode.substr(0, opcode.find('.')); }

}  // namespace

MachineCode parse_disassembly(std::string_view text) {
  constexpr std::string_view kFunction = "Function : ";
  MachineCode out;
  std::vector<MachineInstruction>* function = nullptr;
  for (const std::string_view whole : base::split_lines(text)) {
    std::string_view line = base::trim(whole);
    if (line.starts_with(kFunction)) {
      function = &out[std::string(base::trim(line.substr(kFunction.size())))];
      continue;
    }
    if (function == nullptr) continue;
    const auto offset = take_address(line);
    if (!offset) continue;
    if (line.starts_with('@')) {
      const std::size_t space = line.find(' ');
      if (space == std::string_view::npos) continue;
      line = base::trim(line.substr(space));
    }
    const std::size_t end = std::min(line.size(), line.find_first_of(" ;"));
    const std::string_view opcode = line.substr(0, end);
    if (opcode.empty() || std::isupper(static_cast<unsigned char>(opcode.front())) == 0) continue;
    function->push_back({*offset, std::string(opcode)});
  }
  return out;
}

Result<MachineCode> disassemble(const std::filesystem::path& cubin) {
  const auto toolkit = base::find_cuda_toolkit();
  const auto tool = base::find_cuda_tool("cuobjdump", toolkit ? &*toolkit : nullptr);
  if (!tool) return infrastructure_error("cuobjdump is not installed: run scripts/setup.sh");
  base::ProcessOptions options;
  options.argv = {tool->string(), "-sass", cubin.string()};
  options.max_stdout_bytes = std::size_t{512} << 20;
  options.wall_limit = std::chrono::seconds(60);
  const auto ran = base::run_process(options);
  if (!ran) return tl::unexpected<Error>(ran.error());
  if (!ran->ok() || ran->stdout_truncated)
    return infrastructure_error("cuobjdump -sass {}: {}", cubin.string(), ran->outcome());
  MachineCode code = parse_disassembly(ran->stdout_text);
  if (code.empty()) return infrastructure_error("cuobjdump shows no machine code in {}", cubin.string());
  return code;
}

std::string_view machine_family(std::string_view opcode) {
  struct Entry {
    std::string_view base, family;
  };
  static constexpr std::array kFamilies = {
      Entry{"HGMMA", "wgmma"},           Entry{"QGMMA", "wgmma"},
      Entry{"IGMMA", "wgmma"},           Entry{"BGMMA", "wgmma"},
      Entry{"HMMA", "mma.sync"},         Entry{"IMMA", "mma.sync"},
      Entry{"QMMA", "mma.sync"},         Entry{"BMMA", "mma.sync"},
      Entry{"DMMA", "mma.sync"},         Entry{"UTMALDG", "tma.load"},
      Entry{"UTMASTG", "tma.store"},     Entry{"UTMAREDG", "tma.reduce"},
      Entry{"UBLKCP", "bulk.copy"},      Entry{"UBLKRED", "bulk.reduce"},
      Entry{"LDGSTS", "cp.async"},       Entry{"SYNCS", "mbarrier"},
      Entry{"LDSM", "ldmatrix"},         Entry{"STSM", "stmatrix"},
      Entry{"USETMAXREG", "setmaxnreg"}, Entry{"UTCHMMA", "tcgen05.mma"},
      Entry{"UTCQMMA", "tcgen05.mma"},   Entry{"UTCIMMA", "tcgen05.mma"},
      Entry{"UTCOMMA", "tcgen05.mma"},   Entry{"LDTM", "tcgen05.ld"},
      Entry{"STTM", "tcgen05.st"},       Entry{"UTCCP", "tcgen05.cp"},
      Entry{"UTCBAR", "tcgen05.commit"}, Entry{"UTCATOMSWS", "tcgen05.alloc"},
  };
  const std::string_view base = base_of(opcode);
  for (const Entry& entry : kFamilies) {
    if (entry.base == base) return entry.family;
  }
  return "other";
}

std::optional<double> machine_multiply_adds(std::string_view opcode) {
  const std::string_view family = machine_family(opcode);
  const std::size_t dot = opcode.find('.');
  if (dot == std::string_view::npos || (family != "wgmma" && family != "mma.sync")) return std::nullopt;
  std::string_view shape = opcode.substr(dot + 1);
  const std::string_view modifiers = shape;
  if (family == "wgmma") {
    // 64x256x16
    shape = shape.substr(0, shape.find('.'));
    std::array<unsigned, 3> sizes{};
    const char* at = shape.data();
    const char* const end = at + shape.size();
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (i > 0) {
        if (at == end || *at != 'x') return std::nullopt;
        ++at;
      }
      const auto [stop, error] = std::from_chars(at, end, sizes[i]);
      if (error != std::errc()) return std::nullopt;
      at = stop;
    }
    if (at != end) return std::nullopt;
    return 0.25 * sizes[0] * sizes[1] * sizes[2];
  }
  // 16816: M 16, N 8, K 16. Modifiers may come before it.
  for (std::size_t begin = 0; begin < modifiers.size();) {
    const std::size_t end = std::min(modifiers.size(), modifiers.find('.', begin));
    const std::string_view part = modifiers.substr(begin, end - begin);
    unsigned k = 0;
    if (part.starts_with("168") && part.size() >= 4) {
      const auto [stop, error] = std::from_chars(part.data() + 3, part.data() + part.size(), k);
      if (error == std::errc() && stop == part.data() + part.size()) return 16.0 * 8.0 * k;
    }
    if (part.starts_with("88") && part.size() >= 3) {
      const auto [stop, error] = std::from_chars(part.data() + 2, part.data() + part.size(), k);
      if (error == std::errc() && stop == part.data() + part.size()) return 8.0 * 8.0 * k;
    }
    begin = end + 1;
  }
  return std::nullopt;
}

}  // namespace ptxbench::candidate
