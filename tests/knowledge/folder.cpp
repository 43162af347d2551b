#include "folder.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/text.h"

namespace ptxbench::knowledge {

Folder::Folder() : work_(base::TempDir::create("knowledge-test").value()) {
  write("hub.toml", R"(words = ["x"]
[tags.small]
target = "sm_90a"
summary = "a document"
budget = 100
fragments = ["common/docs/first.md"]

[tags.large]
extends = ["small"]
summary = "and another"
budget = 150
fragments = ["sm_90a/docs/second.md"]

[aliases]
tiny = "small"

[variants.-patched]
summary = "with rules"
budget = 30
fragments = ["common/docs/rules.md"]

[absent]
triton-small = "not written yet"

[programs."programs/use.cu"]
targets = ["sm_90a", "sm_100a"]
runs = ["sm_90a"]
)");
  write("numbers.toml", R"([common.limits]
shared = { value = 1024, text = "1 KiB", label = "shared memory" }
twice = { value = 2048, equals = "limits.shared * 2" }
[sm_90a.machine]
sms = { value = 132, label = "SMs" }
)");
  write("common/include/tools.cuh", R"(#pragma once
// region tools
#define DEVICE __device__ inline
// Doubles.
DEVICE int twice(int x) { return 2 * x; }
// endregion tools
// region hidden
DEVICE int thrice(int x) {
  return twice(x) + x;
}
// endregion hidden
)");
  write("sm_90a/patterns/pattern.cu", R"(#include "tools.cuh"
// region body
__global__ void pattern(int* out) { out[0] = twice(21); }
// endregion body
)");
  write("programs/use.cu", R"(#include "tools.cuh"
__global__ void use(int* out) { out[0] = thrice(2); }
// region main
int main() { return 0; }
// endregion main
)");
  write("common/docs/first.md", R"(# First

{{code common/include/tools.cuh#tools}}

Call `twice(x)`; there are {{number limits.shared}} and 2048 bytes. See `proxy.async`.
)");
  write("sm_90a/docs/second.md", R"(# Second

{{numbers machine}}

{{code sm_90a/patterns/pattern.cu#body}}

{{code common/include/tools.cuh#hidden}}
)");
  write("common/docs/rules.md", "# Rules\n\nThink twice, and then think again before anything at all is handed in.\n");
}

void Folder::write(std::string_view file, std::string_view text) const {
  // Nobody waits for the disk here.
  std::filesystem::create_directories((path() / file).parent_path());
  std::ofstream(path() / file, std::ios::binary | std::ios::trunc) << text;
}

void Folder::remove(std::string_view file) const { std::filesystem::remove(path() / file); }

void Folder::change(std::string_view file, std::string_view from, std::string_view to) const {
  const auto text = base::read_file(path() / file);
  ASSERT_TRUE(text) << text.error().message;
  ASSERT_NE(text->find(from), std::string::npos) << from;
  write(file, base::replace_all(*text, from, to));
}

std::string Folder::error() const {
  const auto hub = load();
  return hub ? "" : hub.error().message;
}

}  // namespace ptxbench::knowledge
