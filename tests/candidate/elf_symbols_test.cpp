#include "candidate/elf_symbols.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/files.h"
#include "candidate/toolchain.h"

namespace ptxbench::candidate {
namespace {

std::string runtime_image() {
  const auto path = find_ffi_runtime();
  EXPECT_TRUE(path);
  return *base::read_file(*path);
}

TEST(ElfSymbols, ReadsOurOwnRuntime) {
  const auto symbols = parse_dynamic_symbols(runtime_image(), "libtvm_ffi.so");
  ASSERT_TRUE(symbols) << symbols.error().message;
  const auto exports = [&](const char* name) {
    return std::binary_search(symbols->exported.begin(), symbols->exported.end(), std::string(name));
  };
  // What a library compiled against upstream's headers imports.
  for (const char* name : {"TVMFFIEnvGetStream", "TVMFFIErrorSetRaised", "TVMFFIBacktrace", "TVMFFIGetTypeInfo",
                           "TVMFFITypeGetOrAllocIndex", "TVMFFIErrorMoveFromRaised", "TVMFFIEnvSetStream"}) {
    EXPECT_TRUE(exports(name)) << name;
  }
  EXPECT_NE(std::find(symbols->needed.begin(), symbols->needed.end(), "libc.so.6"), symbols->needed.end());
  EXPECT_TRUE(std::binary_search(symbols->undefined.begin(), symbols->undefined.end(), std::string("abort")));
}

TEST(ElfSymbols, RefusesWhatIsNoLibrary) {
  EXPECT_FALSE(parse_dynamic_symbols("", "x"));
  EXPECT_FALSE(parse_dynamic_symbols("hello", "x"));
  EXPECT_FALSE(parse_dynamic_symbols(std::string(4096, '\0'), "x"));
}

TEST(ElfSymbols, SurvivesDamage) {
  const std::string image = runtime_image();
  for (std::size_t size = 0; size < image.size(); size += 997) {
    (void)parse_dynamic_symbols(std::string_view(image).substr(0, size), "cut");
  }
  for (std::size_t at = 0; at < 64; ++at) {
    std::string broken = image;
    broken[at] = static_cast<char>(0xff);
    (void)parse_dynamic_symbols(broken, "header");
  }
  // Section headers sit at the end of the file.
  for (std::size_t at = image.size() > 2400 ? image.size() - 2400 : 0; at < image.size(); ++at) {
    std::string broken = image;
    broken[at] = static_cast<char>(0xff);
    (void)parse_dynamic_symbols(broken, "sections");
  }
}

}  // namespace
}  // namespace ptxbench::candidate
