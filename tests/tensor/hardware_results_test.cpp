// Replays instructions recorded on an H200; see the head of the data file.
#include "emulator/tensor/mma_sync.h"
#include "emulator/tensor/wgmma.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace ptxbench::emulator {
namespace {

struct Record {
  std::string heading;
  std::map<char, std::vector<std::uint32_t>> words;
};

std::vector<Record> read_records() {
  std::ifstream file("tests/tensor/data/h200_tensor_core.txt");
  std::vector<Record> records;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') {
      continue;
    }
    if (line[1] != ' ') {
      records.push_back({line, {}});
      continue;
    }
    std::istringstream stream(line.substr(2));
    for (std::uint32_t word = 0; stream >> std::hex >> word;) {
      records.back().words[line[0]].push_back(word);
    }
  }
  return records;
}

std::vector<std::uint32_t*> registers(std::vector<std::uint32_t>& lanes) {
  std::vector<std::uint32_t*> pointers;
  for (std::size_t i = 0; i < lanes.size(); i += 32) {
    pointers.push_back(lanes.data() + i);
  }
  return pointers;
}

const std::map<std::string, MmaType> kWgmmaTypes = {{"bf16", MmaType::bf16},
                                                    {"f16", MmaType::f16},
                                                    {"tf32", MmaType::tf32},
                                                    {"e4m3", MmaType::e4m3},
                                                    {"e5m2", MmaType::e5m2}};
const std::map<std::string, MmaSyncType> kMmaTypes = {{"bf16", MmaSyncType::bf16},
                                                      {"f16", MmaSyncType::f16},
                                                      {"tf32", MmaSyncType::tf32},
                                                      {"e4m3", MmaSyncType::e4m3},
                                                      {"e5m2", MmaSyncType::e5m2}};

std::vector<std::uint32_t> run_wgmma(Record& record, const std::string& type, const std::string& accumulator) {
  WgmmaShape shape;
  shape.a_type = shape.b_type = kWgmmaTypes.at(type);
  shape.accumulator = accumulator == "f16" ? AccumulatorType::f16 : AccumulatorType::f32;
  std::vector<std::byte> shared(1U << 18);
  const auto place = [&](std::uint32_t start, const std::vector<std::uint32_t>& rows) {  // no swizzle, K-major
    for (std::uint32_t i = 0; i < rows.size(); ++i) {
      const std::uint32_t row = i / 8;
      const std::uint32_t byte = i % 8 * 4;
      std::memcpy(shared.data() + start + row / 8 * 256 + row % 8 * 16 + byte / 16 * 128 + byte % 16, &rows[i], 4);
    }
    return MatrixDescriptor{start, 128, 256, 0, MatrixSwizzle::none}.encode();
  };
  const WgmmaStep step{place(0, record.words['a']), place(8192, record.words['b']), true};
  std::vector<std::uint32_t> d = record.words['c'];
  const auto pointers = registers(d);
  const WgmmaWarp warp{0, pointers.data(), nullptr};
  WgmmaEngine engine;
  engine.execute(shape, {&step, 1}, {&warp, 1}, shared.data(), 1, MmaMode::exact);
  return d;
}

std::vector<std::uint32_t> run_mma(Record& record, const std::string& type, unsigned k,
                                   const std::string& accumulator) {
  MmaSyncShape shape;
  shape.k = k;
  shape.a_type = shape.b_type = kMmaTypes.at(type);
  shape.accumulator = accumulator == "f16" ? AccumulatorType::f16 : AccumulatorType::f32;
  std::vector<std::uint32_t> d = record.words['c'];
  const auto pointers = registers(d);
  MmaSyncEngine engine;
  engine.execute(shape, registers(record.words['a']).data(), registers(record.words['b']).data(), pointers.data(),
                 pointers.data(), MmaMode::exact);
  return d;
}

TEST(HardwareResults, ExactModeReproducesEveryBit) {
  std::vector<Record> records = read_records();
  ASSERT_EQ(records.size(), 28U);
  for (Record& record : records) {
    std::istringstream heading(record.heading);
    std::string instruction;
    std::string type;
    std::string accumulator;
    unsigned k = 0;
    heading >> instruction >> type;
    if (instruction == "mma") {
      heading >> k;
    }
    heading >> accumulator;
    const auto d =
        instruction == "wgmma" ? run_wgmma(record, type, accumulator) : run_mma(record, type, k, accumulator);
    EXPECT_EQ(d, record.words['d']) << record.heading;
  }
}

}  // namespace
}  // namespace ptxbench::emulator
