#include "cuda_shim/program_check.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <random>

#include "base/files.h"

namespace ptxbench::cuda_shim {
namespace {

using ::testing::HasSubstr;

class ProgramCheck : public ::testing::Test {
 protected:
  void SetUp() override {
    auto folder = base::TempDir::create();
    ASSERT_TRUE(folder);
    folder_.emplace(std::move(*folder));
  }
  std::filesystem::path write(const std::string& name, const std::string& bytes) {
    const auto path = folder_->path() / name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  std::string refusal(const std::filesystem::path& path) {
    const auto info = check_program(path);
    return info ? "accepted" : info.error().message;
  }
  std::optional<base::TempDir> folder_;
};

TEST_F(ProgramCheck, AcceptsProgramsWithoutDeviceCode) {
  const auto info = check_program("/bin/sh");
  ASSERT_TRUE(info) << info.error().message;
  EXPECT_FALSE(info->has_device_code);
  EXPECT_FALSE(info->uses_runtime);
  const auto script = check_program(write("script", "#!/bin/sh\necho\n"));
  ASSERT_TRUE(script);
  EXPECT_TRUE(script->is_script);
}

TEST_F(ProgramCheck, SaysWhatIsWrong) {
  EXPECT_THAT(refusal("/nonexistent/program"), HasSubstr("cannot open program"));
  EXPECT_THAT(refusal(folder_->path()), HasSubstr("folder"));
  EXPECT_THAT(refusal("/dev/null"), HasSubstr("special file"));
  EXPECT_THAT(refusal(write("text", "hello")), HasSubstr("no ELF file"));
  EXPECT_THAT(refusal(write("empty", "")), HasSubstr("no ELF file"));
  EXPECT_THAT(refusal(write("kernel.cu", "__global__ void k() {}")), HasSubstr("nvcc -cudart shared"));
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_machine = EM_AARCH64;
  header.e_type = ET_EXEC;
  const auto bytes = [&] { return std::string(reinterpret_cast<const char*>(&header), sizeof header); };
  EXPECT_THAT(refusal(write("arm", bytes())), HasSubstr("another machine"));
  header.e_machine = EM_X86_64;
  header.e_type = ET_REL;
  EXPECT_THAT(refusal(write("object.o", bytes())), HasSubstr("object file"));
  header.e_type = ET_DYN;
  header.e_phoff = 1ull << 40;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 3;
  EXPECT_THAT(refusal(write("damaged", bytes())), HasSubstr("damaged"));
}

TEST_F(ProgramCheck, SurvivesDamage) {
  const auto whole = base::read_file("/bin/true");
  ASSERT_TRUE(whole);
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    std::string bytes = *whole;
    // The header and the tables behind the sections are what is read.
    for (int i = 0; i < 6; ++i) bytes[random() % 64] = static_cast<char>(random());
    std::memcpy(bytes.data(), whole->data(), 20);
    for (int i = 0; i < 20; ++i) bytes[bytes.size() - 1 - random() % 2000] = static_cast<char>(random());
    if (round % 4 == 0) bytes.resize(random() % bytes.size());
    static_cast<void>(check_program(write("damaged", bytes)));
  }
}

}  // namespace
}  // namespace ptxbench::cuda_shim
