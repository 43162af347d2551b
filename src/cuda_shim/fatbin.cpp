#include "cuda_shim/fatbin.h"

#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <memory>

namespace ptxbench::cuda_shim {
namespace {

constexpr std::size_t kEntryHeaderBytes = 64;  // the smallest nvcc writes; file names and options follow it
constexpr uint64_t kFlagLz4 = 0x2000, kFlagZstd = 0x8000, kFlagArchitectureSpecific = 0x10'0000;
// Entries of a container are a handful; the bound keeps a hostile one from costing memory.
constexpr std::size_t kMaxEntries = 4096;

template <class T>
T load(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

}  // namespace

std::string FatbinEntry::name() const {
  const char* suffix = architecture_specific ? "a" : "";
  switch (kind) {
    case FatbinKind::ptx:
      return fmt::format("compute_{}{} PTX", architecture, suffix);
    case FatbinKind::machine_code:
      return fmt::format("sm_{}{} machine code", architecture, suffix);
    case FatbinKind::other:
      break;
  }
  return fmt::format("sm_{}{} image of unknown kind", architecture, suffix);
}

Result<std::vector<FatbinEntry>> parse_fatbin(std::span<const std::byte> bytes) {
  std::vector<FatbinEntry> entries;
  std::size_t at = 0;
  while (at < bytes.size()) {
    if (bytes[at] == std::byte{0}) {  // padding between containers
      ++at;
      continue;
    }
    const std::span<const std::byte> rest = bytes.subspan(at);
    const std::optional<uint64_t> total = fatbin_bytes(rest);
    if (!total) return input_error("fat binary: no container header at byte {}", at);
    const uint16_t version = load<uint16_t>(rest, 4);
    if (version != 1)
      return input_error("fat binary: container version {} at byte {}; version 1 is known", version, at);
    if (*total > rest.size()) {
      return input_error("fat binary: the container at byte {} says {} bytes, {} are there", at, *total, rest.size());
    }
    std::size_t offset = load<uint16_t>(rest, 6);
    const auto end = static_cast<std::size_t>(*total);
    while (offset < end) {
      const std::span<const std::byte> entry_bytes = rest.subspan(offset, end - offset);
      if (entry_bytes.size() < kEntryHeaderBytes) {
        return input_error("fat binary: {} bytes at byte {} are too few for an entry", entry_bytes.size(), at + offset);
      }
      const uint32_t header = load<uint32_t>(entry_bytes, 4);
      const uint64_t padded = load<uint64_t>(entry_bytes, 8);
      if (header < kEntryHeaderBytes || header > entry_bytes.size() || padded > entry_bytes.size() - header) {
        return input_error("fat binary: the entry at byte {} ({} + {} bytes) exceeds its container", at + offset,
                           header, padded);
      }
      const uint32_t packed = load<uint32_t>(entry_bytes, 16);
      const uint64_t flags = load<uint64_t>(entry_bytes, 40);
      const uint64_t unpacked = load<uint64_t>(entry_bytes, 56);
      FatbinEntry entry;
      switch (load<uint16_t>(entry_bytes, 0)) {
        case 1:
          entry.kind = FatbinKind::ptx;
          break;
        case 2:
          entry.kind = FatbinKind::machine_code;
          break;
        default:
          entry.kind = FatbinKind::other;
          break;
      }
      entry.architecture = load<uint32_t>(entry_bytes, 28);
      entry.architecture_specific = (flags & kFlagArchitectureSpecific) != 0;
      entry.payload = entry_bytes.subspan(header, static_cast<std::size_t>(padded));
      entry.unpacked_bytes = padded;
      if ((flags & (kFlagLz4 | kFlagZstd)) != 0) {
        entry.compression = (flags & kFlagZstd) != 0 ? FatbinCompression::zstd : FatbinCompression::lz4;
        if (packed > padded) {
          return input_error("fat binary: the entry at byte {} has {} packed bytes in {}", at + offset, packed, padded);
        }
        entry.payload = entry.payload.first(packed);
        entry.unpacked_bytes = unpacked;
      }
      if (entries.size() == kMaxEntries) return input_error("fat binary: more than {} entries", kMaxEntries);
      entries.push_back(entry);
      offset += header + static_cast<std::size_t>(padded);
    }
    at += end;
  }
  return entries;
}

Result<std::string> unpack(const FatbinEntry& entry) {
  const char* data = reinterpret_cast<const char*>(entry.payload.data());
  if (entry.compression == FatbinCompression::none) return std::string(data, entry.payload.size());
  if (entry.unpacked_bytes > kMaxUnpackedBytes) {
    return input_error("fat binary: the {} says it unpacks to {} bytes; at most {} are accepted", entry.name(),
                       entry.unpacked_bytes, kMaxUnpackedBytes);
  }
  std::string text;
  if (entry.compression == FatbinCompression::zstd) {
    const unsigned long long frame = ZSTD_getFrameContentSize(data, entry.payload.size());
    if (frame != ZSTD_CONTENTSIZE_UNKNOWN && frame != entry.unpacked_bytes) {
      return input_error("fat binary: the zstd frame of the {} does not have the declared {} bytes", entry.name(),
                         entry.unpacked_bytes);
    }
    text.resize(static_cast<std::size_t>(entry.unpacked_bytes));
    const std::size_t got = ZSTD_decompress(text.data(), text.size(), data, entry.payload.size());
    if (ZSTD_isError(got) != 0) {
      return input_error("fat binary: the {} does not unpack: {}", entry.name(), ZSTD_getErrorName(got));
    }
    if (got != text.size()) return input_error("fat binary: the {} unpacks to {} bytes only", entry.name(), got);
    return text;
  }
  // LZ4 expands at most 255 times, so a small payload cannot ask for a large buffer.
  if (entry.unpacked_bytes / 256 > entry.payload.size()) {
    return input_error("fat binary: {} bytes of LZ4 data cannot give {} bytes", entry.payload.size(),
                       entry.unpacked_bytes);
  }
  text.resize(static_cast<std::size_t>(entry.unpacked_bytes));
  const int got =
      LZ4_decompress_safe(data, text.data(), static_cast<int>(entry.payload.size()), static_cast<int>(text.size()));
  if (got < 0 || static_cast<std::size_t>(got) != text.size()) {
    return input_error("fat binary: the {} does not unpack: damaged LZ4 data", entry.name());
  }
  return text;
}

Result<std::string> select_machine_code(std::span<const std::byte> container) {
  const auto entries = parse_fatbin(container);
  if (!entries) return tl::unexpected<Error>(entries.error());
  const FatbinEntry* best = nullptr;
  for (const FatbinEntry& entry : *entries) {
    if (entry.kind != FatbinKind::machine_code || entry.architecture != 90) continue;
    if (best == nullptr || entry.architecture_specific) best = &entry;
  }
  if (best == nullptr) return input_error("no machine code for sm_90a in this fat binary; {}", kPtxRemedy);
  return unpack(*best);
}

Result<std::string> select_ptx(std::span<const std::byte> container) {
  const auto entries = parse_fatbin(container);
  if (!entries) return tl::unexpected<Error>(entries.error());
  const FatbinEntry* best = nullptr;
  const auto rank = [](const FatbinEntry& entry) {
    return entry.architecture * 2 + (entry.architecture_specific ? 1u : 0u);
  };
  std::string present;
  for (const FatbinEntry& entry : *entries) {
    if (present.size() < 400) present += (present.empty() ? "" : ", ") + entry.name();
    if (entry.kind != FatbinKind::ptx || entry.architecture > 90) continue;
    if (entry.architecture_specific && entry.architecture != 90) continue;
    if (best == nullptr || rank(entry) > rank(*best)) best = &entry;
  }
  if (best == nullptr) {
    return input_error("no PTX for an sm_90a device in this fat binary (it holds: {}); {}",
                       present.empty() ? "nothing" : present, kPtxRemedy);
  }
  auto text = unpack(*best);
  // ptxas accepts a trailing NUL; our parser takes text.
  if (text) text->erase(std::find(text->begin(), text->end(), '\0'), text->end());
  return text;
}

}  // namespace ptxbench::cuda_shim
