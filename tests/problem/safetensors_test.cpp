#include "problem/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "base/files.h"
#include "problem/random.h"

namespace ptxbench::problem {
namespace {

std::string file_of(const std::string& header, const std::string& data, std::uint64_t length = ~std::uint64_t{0}) {
  if (length == ~std::uint64_t{0}) length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

class SafetensorsTest : public ::testing::Test {
 protected:
  Result<SafetensorsFile> open(const std::string& bytes) {
    const auto path = folder_.path() / "x.safetensors";
    std::ofstream(path, std::ios::binary) << bytes;
    return SafetensorsFile::open(path);
  }
  base::TempDir folder_ = *base::TempDir::create();
};

TEST_F(SafetensorsTest, ReadsTensors) {
  const float values[3] = {1, 2, 3};
  const std::string header = R"({"__metadata__":{"a":"b"},"x":{"dtype":"F32","shape":[3],"data_offsets":[2,14]},
    "y":{"dtype":"BF16","shape":[],"data_offsets":[0,2]}})";
  const auto file =
      open(file_of(header, std::string("\x80\x3f", 2) + std::string(reinterpret_cast<const char*>(values), 12)));
  ASSERT_TRUE(file) << file.error().message;
  const auto x = file->read("x", "renamed");
  ASSERT_TRUE(x) << x.error().message;
  EXPECT_EQ(x->name, "renamed");
  EXPECT_EQ(x->shape, Shape{3});
  EXPECT_EQ(x->as<float>()[2], 3.0f);
  EXPECT_EQ(file->read("y", "y")->as<std::uint16_t>()[0], 0x3f80);
  EXPECT_NE(file->read("z", "z").error().message.find("x, y"), std::string::npos);
}

TEST_F(SafetensorsTest, WhatIsWrittenIsRead) {
  std::vector<Tensor> tensors;
  for (const Dtype dtype : {Dtype::float8_e4m3fn, Dtype::bfloat16, Dtype::float32, Dtype::int64, Dtype::boolean}) {
    tensors.push_back(*Tensor::create(std::string(to_string(dtype)), dtype, {3, 5}));
    fill({dtype, Distribution::normal, 3, 0}, tensors.back());
  }
  tensors.push_back(*Tensor::create("scalar \"quoted\"", Dtype::float32, {}));
  tensors.push_back(*Tensor::create("empty", Dtype::float32, {0, 4}));
  std::vector<const Tensor*> pointers;
  for (const Tensor& tensor : tensors) pointers.push_back(&tensor);
  const auto path = folder_.path() / "written.safetensors";
  const auto written = write_safetensors(path, pointers, {{"seed", "3"}});
  ASSERT_TRUE(written) << written.error().message;
  const auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_EQ(file->entries().size(), tensors.size());
  EXPECT_EQ(file->entries()[0].begin % 8, 0u);
  for (const Tensor& tensor : tensors) {
    const auto again = file->read(tensor.name, tensor.name);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(again->dtype, tensor.dtype);
    EXPECT_EQ(again->shape, tensor.shape);
    EXPECT_EQ(std::memcmp(again->data(), tensor.data(), tensor.bytes()), 0) << tensor.name;
  }
  EXPECT_FALSE(write_safetensors(folder_.path() / "no/such/folder", pointers));
  pointers.push_back(pointers[0]);
  EXPECT_FALSE(write_safetensors(path, pointers)) << "a name twice";
  const Tensor narrow = *Tensor::create("x", Dtype::float4_e2m1, {4});
  EXPECT_FALSE(write_safetensors(path, {&narrow}));
  EXPECT_TRUE(SafetensorsFile::open(path)) << "what was there stays";
}

TEST_F(SafetensorsTest, HeadersOfVeryManyTensorsAreRefusedAtOnce) {
  std::string header = "{";
  for (int i = 0; i < 16400; ++i) {
    header += fmt::format("{}\"t{}\":{{\"dtype\":\"I8\",\"shape\":[0],\"data_offsets\":[0,0]}}", i == 0 ? "" : ",", i);
  }
  const auto entries = SafetensorsFile::parse_header(header + "}", 1 << 24, "f");
  ASSERT_FALSE(entries);
  EXPECT_NE(entries.error().message.find("more than 16384 keys"), std::string::npos) << entries.error().message;
}

TEST_F(SafetensorsTest, HostileHeadersAreRefused) {
  const char* headers[] = {
      "",
      "[]",
      "{\"x\":1}",
      R"({"x":{"dtype":"F32","shape":[4],"data_offsets":[0,12]}})",  // size does not fit the shape
      R"({"x":{"dtype":"F32","shape":[4],"data_offsets":[8,24]}})",  // beyond the end
      R"({"x":{"dtype":"F32","shape":[4],"data_offsets":[16,0]}})",  // backwards
      R"({"x":{"dtype":"F32","shape":[4],"data_offsets":[-16,0]}})",
      R"({"x":{"dtype":"F32","shape":[4],"data_offsets":[0]}})",
      R"({"x":{"dtype":"F32","shape":[-4],"data_offsets":[0,16]}})",
      R"({"x":{"dtype":"F32","shape":[4294967296,4294967296,4294967296],"data_offsets":[0,16]}})",
      R"({"x":{"dtype":"F32","shape":[4.5],"data_offsets":[0,18]}})",
      R"({"x":{"dtype":"F99","shape":[4],"data_offsets":[0,16]}})",
      R"({"x":{"shape":[4],"data_offsets":[0,16]}})",
      R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"y":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",  // overlap
      R"({"x":{"dtype":"F32","shape":[4],"data_offsets":[0,18446744073709551615]}})",
  };
  for (const char* header : headers) EXPECT_FALSE(open(file_of(header, std::string(16, 'x')))) << header;
  EXPECT_FALSE(open(""));
  EXPECT_FALSE(open("short"));
  EXPECT_FALSE(open(file_of("{}", "", 1000000)));
  EXPECT_FALSE(open(file_of("{}", "", ~std::uint64_t{0} - 1)));
  EXPECT_FALSE(SafetensorsFile::open("/no/such/file"));
  EXPECT_TRUE(open(file_of("{}", "")));
}

}  // namespace
}  // namespace ptxbench::problem
