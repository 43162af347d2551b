#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <iterator>
#include <map>

#include "cuda_shim/client/core.h"

namespace ptxbench::cuda_shim::client {
namespace {

/// By attribute number. Read from an H200 (CUDA 13.0), which is the same die, then set to what an H100 SXM has
/// (memory and its clock, bus, L2) or to 0 where the emulated device has no such feature (pageable access, virtual
/// memory management, peer-to-peer DMA, sparse arrays, interprocess handles).
constexpr int kAttributes[] = {
    0,        1024,      1024,     1024,  64,    2147483647, 65535, 65535,     49152,     65536,     32,     2147483647,
    65536,    1980000,   512,      1,     132,   0,          0,     1,         0,         131072,    131072, 65536,
    16384,    16384,     16384,    32768, 32768, 2048,       512,   1,         1,         0,         0,      0,
    2619000,  5120,      52428800, 2048,  3,     1,          32768, 2048,      1,         32768,     32768,  8192,
    8192,     32768,     0,        32,    32768, 32768,      2046,  32768,     131072,    65536,     16384,  16384,
    16384,    32768,     2048,     32768, 32768, 2048,       32768, 32768,     2046,      268435456, 131072, 65000,
    2097120,  32768,     32768,    9,     0,     32768,      1,     1,         1,         233472,    65536,  1,
    0,        0,         0,        2,     0,     1,          1,     0,         0,         0,         0,      1,
    0,        232448,    0,        1,     0,     0,          0,     0,         0,         0,         32,     0,
    32768000, 134217728, 0,        1024,  0,     1,          0,     1,         0,         0,         0,      0,
    1,        0,         0,        0,     0,     0,          4,     0,         0,         0,         0,      -1,
    0,        0,         0,        0,     0,     0,          0,     590352606, 381751518, 0,         0,      0,
    0,        0,         0,        0,
};

struct ErrorName {
  int number;
  const char* runtime;
  const char* driver;
};
constexpr ErrorName kErrorNames[] = {
#include "cuda_shim/client/error_names.inc"
};

struct DriverVersions {
  const char* name;
  int versions[4];  ///< CUDA versions that introduced NAME, NAME_v2, NAME_v3, NAME_v4
};
constexpr DriverVersions kDriverVersions[] = {
#include "cuda_shim/client/driver_versions.inc"
};

const ErrorName* find_error(int error) {
  const auto* found = std::find_if(std::begin(kErrorNames), std::end(kErrorNames),
                                   [error](const ErrorName& entry) { return entry.number == error; });
  return found == std::end(kErrorNames) ? nullptr : found;
}

/// Errors people meet often, in words; the others are described by their names.
const std::map<int, const char*>& common_texts() {
  static const std::map<int, const char*> kTexts = {
      {0, "no error"},
      {1, "invalid argument"},
      {2, "out of memory"},
      {3, "the device could not be initialised"},
      {13, "not a device symbol"},
      {21, "invalid direction of a copy"},
      {98, "not a kernel of this program"},
      {100, "no CUDA device found"},
      {101, "no such device"},
      {200, "damaged or unknown kernel image"},
      {209, "no kernel image (PTX) for this device"},
      {218, "PTX does not compile"},
      {400, "invalid handle"},
      {500, "named symbol not found"},
      {600, "not ready yet"},
      {700, "illegal memory access"},
      {701, "a launch asks for more resources than there are"},
      {702, "the kernel was stopped: deadlock or instruction budget"},
      {710, "a device-side assertion failed"},
      {715, "illegal instruction"},
      {716, "misaligned address"},
      {719, "the kernel failed"},
      {720, "too many blocks for a cooperative launch"},
      {801, "not supported by the emulated device"},
      {912, "the cluster does not fit the launch"},
  };
  return kTexts;
}

/// "cudaErrorInvalidSurface" -> "invalid surface".
std::string words(const char* name) {
  std::string text;
  for (const char* at = name + std::strlen("cudaError"); *at != 0; ++at) {
    if (std::isupper(static_cast<unsigned char>(*at)) != 0 && !text.empty()) text += ' ';
    text += static_cast<char>(std::tolower(static_cast<unsigned char>(*at)));
  }
  return text;
}

}  // namespace

int device_attribute(int attribute, int& value) {
  if (attribute < 1 || attribute >= static_cast<int>(std::size(kAttributes))) return cuda_error::kInvalidValue;
  value = kAttributes[attribute];
  return 0;
}

const unsigned char* device_uuid() {
  static const unsigned char kUuid[16] = {'p', 't', 'x', 'b', 'e', 'n', 'c', 'h',
                                          '-', 'h', '1', '0', '0', '-', '0', '0'};
  return kUuid;
}

const char* runtime_error_name(int error) {
  const ErrorName* entry = find_error(error);
  return entry == nullptr ? nullptr : entry->runtime;
}

const char* driver_error_name(int error) {
  const ErrorName* entry = find_error(error);
  return entry == nullptr ? nullptr : entry->driver;
}

const char* error_text(int error) {
  if (const auto found = common_texts().find(error); found != common_texts().end()) return found->second;
  const ErrorName* entry = find_error(error);
  if (entry == nullptr) return nullptr;
  if (entry->runtime == nullptr) return entry->driver;
  static std::mutex mutex;
  static std::map<int, std::string> texts;
  const std::lock_guard lock(mutex);
  auto found = texts.find(error);
  if (found == texts.end()) found = texts.emplace(error, words(entry->runtime)).first;
  return found->second.c_str();
}

void* find_driver_function(const char* name, int cuda_version, bool per_thread_default, bool& too_new) {
  too_new = false;
  const auto* entry = std::find_if(std::begin(kDriverVersions), std::end(kDriverVersions),
                                   [name](const DriverVersions& known) { return std::strcmp(known.name, name) == 0; });
  if (entry == std::end(kDriverVersions)) return nullptr;
  int best = -1;
  for (int i = 0; i < 4 && entry->versions[i] != 0; ++i) {
    if (entry->versions[i] <= cuda_version) best = i;
  }
  if (best < 0) {
    too_new = true;
    return nullptr;
  }
  static void* const kSelf = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (kSelf == nullptr) return nullptr;
  const std::string symbol = best == 0 ? std::string(name) : std::string(name) + "_v" + std::to_string(best + 1);
  if (per_thread_default) {
    for (const char* suffix : {"_ptsz", "_ptds"}) {
      if (void* found = ::dlsym(kSelf, (symbol + suffix).c_str()); found != nullptr) return found;
    }
  }
  return ::dlsym(kSelf, symbol.c_str());
}

}  // namespace ptxbench::cuda_shim::client
