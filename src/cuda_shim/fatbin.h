#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"

/// The container that nvcc puts into host objects: a 16-byte header, then entries, each a header with a payload that is
/// PTX text or machine code, plain or compressed (zstd or LZ4). Input is hostile: every offset and size is checked.
namespace ptxbench::cuda_shim {

inline constexpr uint32_t kFatbinMagic = 0xBA55ED50;
inline constexpr uint32_t kFatbinWrapperMagic = 0x466243B1;
inline constexpr std::size_t kFatbinHeaderBytes = 16;
/// PTX of one entry may not be larger than this when unpacked; real modules stay under 100 MiB.
inline constexpr uint64_t kMaxUnpackedBytes = 256ull << 20;

enum class FatbinKind : uint8_t { ptx, machine_code, other };
enum class FatbinCompression : uint8_t { none, lz4, zstd };

struct FatbinEntry {
  FatbinKind kind{};
  FatbinCompression compression{};
  uint32_t architecture = 0;           ///< 90 for sm_90 and sm_90a
  bool architecture_specific = false;  ///< the `a` of sm_90a
  uint64_t unpacked_bytes = 0;         ///< as declared; equals the payload's size without compression
  std::span<const std::byte> payload;  ///< into the container's bytes, without padding
  std::string name() const;            ///< "sm_90a machine code", "compute_80 PTX"
};

/// Size of the whole container as its header says, if `bytes` starts with such a header.
inline std::optional<uint64_t> fatbin_bytes(std::span<const std::byte> bytes) {
  if (bytes.size() < kFatbinHeaderBytes) return std::nullopt;
  uint32_t magic = 0;
  uint16_t header = 0;
  uint64_t content = 0;
  std::memcpy(&magic, bytes.data(), sizeof magic);
  std::memcpy(&header, bytes.data() + 6, sizeof header);
  std::memcpy(&content, bytes.data() + 8, sizeof content);
  if (magic != kFatbinMagic || header < kFatbinHeaderBytes || content > UINT64_MAX - header) return std::nullopt;
  return header + content;
}

/// All entries of one container, or of several that follow one another (as in a linked program's section, zero padding
/// between them).
Result<std::vector<FatbinEntry>> parse_fatbin(std::span<const std::byte> bytes);

/// The entry's payload, unpacked.
Result<std::string> unpack(const FatbinEntry& entry);

/// How a program must be compiled so that its PTX can be found.
inline constexpr char kPtxRemedy[] =
    "compile with -gencode arch=compute_90a,code=[sm_90a,compute_90a]; for a build system you cannot edit: "
    "export NVCC_APPEND_FLAGS='-cudart shared -lineinfo -gencode arch=compute_90a,code=[sm_90a,compute_90a]'";

/// The PTX an sm_90a device would take from the container: sm_90a, else the highest architecture up to 90 that is not
/// specific to another part. Fails with kPtxRemedy when there is none.
Result<std::string> select_ptx(std::span<const std::byte> container);

/// The machine code for sm_90a, else sm_90. Fails with what to compile for when there is none.
Result<std::string> select_machine_code(std::span<const std::byte> container);

}  // namespace ptxbench::cuda_shim
