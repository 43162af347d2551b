#include "candidate/local_includes.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/files.h"

namespace ptxbench::candidate {
namespace {

namespace fs = std::filesystem;

class LocalIncludes : public ::testing::Test {
 protected:
  void SetUp() override {
    auto folder = base::TempDir::create();
    ASSERT_TRUE(folder);
    folder_.emplace(std::move(*folder));
  }

  fs::path write(const std::string& name, const std::string& text) const {
    fs::path file = folder_->path() / name;
    EXPECT_TRUE(base::write_file_atomic(file, text));
    return file;
  }

  std::string expanded(const std::string& root) const {
    const auto text = read_with_local_includes(write("root.cu", root));
    EXPECT_TRUE(text) << text.error().message;
    return text ? *text : "";
  }

  std::string refusal(const std::string& root) const {
    const auto text = read_with_local_includes(write("root.cu", root));
    EXPECT_FALSE(text) << *text;
    if (text) return "";
    EXPECT_EQ(text.error().kind, ErrorKind::input);
    return text.error().message;
  }

  std::optional<base::TempDir> folder_;
};

TEST_F(LocalIncludes, ReplacesALineByTheFile) {
  write("tiles.cu", "int tile;\nint other;\n");
  EXPECT_EQ(expanded("#define CAUSAL 1\n  #  include \"tiles.cu\"  // shared\nint after;\n"),
            "#define CAUSAL 1\n#line 1 \"tiles.cu\"\nint tile;\nint other;\n#line 3 \"kernel.cu\"\nint after;\n");
}

TEST_F(LocalIncludes, WhatOnlyWholeFilesMayHoldIsLeftOut) {
  write("tile.cuh", "\xef\xbb\xbf#pragma once\nint tile;\n");
  EXPECT_EQ(expanded("#include \"tile.cuh\"\n"), "#line 1 \"tile.cuh\"\n\nint tile;\n#line 2 \"kernel.cu\"\n");
}

TEST_F(LocalIncludes, OnlyOrdinaryFilesAreRead) {
  ASSERT_EQ(::mkfifo((folder_->path() / "pipe.cuh").c_str(), 0600), 0);
  EXPECT_NE(refusal("#include \"pipe.cuh\"\n").find("no ordinary file"), std::string::npos);
}

TEST_F(LocalIncludes, LeavesTheRestToTheCompiler) {
  write("tiles.cu", "int tile;\n");
  write("tvm_ffi.h", "wrong\n");
  const std::string text =
      "#include <tiles.cu>\n#include \"cuda.h\"\n#include \"tvm/ffi/tvm_ffi.h\"\n// #include \"tiles.cu\"\n"
      "/*\n#include \"tiles.cu\"\n*/\nconst char* s = R\"(\n#include \"tiles.cu\"\n)\";\n#include "
      "NAME\n#includes\n#include";
  EXPECT_EQ(expanded(text), text);
  EXPECT_EQ(expanded(""), "");
  EXPECT_EQ(expanded("no end of line"), "no end of line");
}

TEST_F(LocalIncludes, NestedFilesComeInOnce) {
  write("inner.h", "int inner;");
  write("outer.cu", "#include \"inner.h\"\nint outer;\n");
  EXPECT_EQ(expanded("#include \"outer.cu\"\n#include \"inner.h\"\n#include \"outer.cu\"\nint last;\n"),
            "#line 1 \"outer.cu\"\n#line 1 \"inner.h\"\nint inner;\n#line 2 \"outer.cu\"\nint outer;\n"
            "#line 2 \"kernel.cu\"\n\n\nint last;\n");
}

TEST_F(LocalIncludes, WindowsLineEnds) {
  write("tiles.cu", "int tile;\r\n");
  EXPECT_EQ(expanded("#include \"tiles.cu\"\r\nint after;\r\n"),
            "#line 1 \"tiles.cu\"\nint tile;\r\n#line 2 \"kernel.cu\"\nint after;\r\n");
}

TEST_F(LocalIncludes, RefusesCycles) {
  write("a.cu", "\n#include \"b.cu\"\n");
  write("b.cu", "#include \"a.cu\"\n");
  EXPECT_NE(refusal("#include \"a.cu\"\n").find("root.cu:1 -> a.cu:2 -> b.cu:1 -> a.cu"), std::string::npos);
  EXPECT_NE(refusal("#include \"root.cu\"\n").find("root.cu:1 -> root.cu"), std::string::npos);
}

TEST_F(LocalIncludes, RefusesMissingFiles) {
  const std::string message = refusal("\n#include \"absent.cu\"\n");
  EXPECT_NE(message.find("root.cu:2"), std::string::npos) << message;
  EXPECT_NE(message.find("\"absent.cu\" does not exist"), std::string::npos) << message;
}

TEST_F(LocalIncludes, RefusesFilesElsewhere) {
  fs::create_directory(folder_->path() / "sub");
  write("sub/far.cu", "int far;\n");
  for (const std::string name : {"sub/far.cu", "../far.cu", "/etc/far.cu", "./root.cu"}) {
    const std::string message = refusal("#include \"" + name + "\"\n");
    EXPECT_NE(message.find("not the name of a file beside root.cu"), std::string::npos) << message;
  }
  fs::create_symlink(folder_->path() / "sub" / "far.cu", folder_->path() / "link.cu");
  EXPECT_NE(refusal("#include \"link.cu\"\n").find("leads out of"), std::string::npos);
}

TEST_F(LocalIncludes, LimitsTheSumOfSizes) {
  write("tiles.cu", std::string(600, '\n'));
  const fs::path root = write("root.cu", "#include \"tiles.cu\"\n" + std::string(500, '\n'));
  EXPECT_TRUE(read_with_local_includes(root, 2000));
  EXPECT_FALSE(read_with_local_includes(root, 1000));
}

TEST_F(LocalIncludes, SaysWhichFileIsMissingOrNoText) {
  const auto missing = read_with_local_includes(folder_->path() / "none.cu");
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("none.cu"), std::string::npos);
  write("binary.cu", std::string("a\0b", 3));
  EXPECT_NE(refusal("#include \"binary.cu\"\n").find("binary.cu is not a text file"), std::string::npos);
}

}  // namespace
}  // namespace ptxbench::candidate
