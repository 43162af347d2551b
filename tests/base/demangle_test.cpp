#include "base/demangle.h"

#include <gtest/gtest.h>

namespace ptxbench::base {
namespace {

TEST(Demangle, NamesThatAreNotMangledStay) {
  EXPECT_EQ(demangled("kernel"), "kernel");
  EXPECT_EQ(demangled(""), "");
  EXPECT_EQ(demangled("_Z1kPKf"), "k(float const*)");
}

TEST(Demangle, ShortNamesAreWithoutWhatIsReturnedAndTaken) {
  EXPECT_EQ(short_name("_Z1kPKf"), "k");
  EXPECT_EQ(short_name("_ZN12_GLOBAL__N_14gemmILi64EEEvPf"), "(anonymous namespace)::gemm<64>");
  EXPECT_EQ(short_name("_ZN3foo12_GLOBAL__N_14gemmEPf"), "foo::(anonymous namespace)::gemm");
  EXPECT_EQ(short_name("_Z4gemmILi64EEvPf"), "gemm<64>");
  EXPECT_EQ(short_name("_Z4sortIPFviEEvT_"), "sort<void (*)(int)>");
  EXPECT_EQ(short_name("plain"), "plain");
  EXPECT_EQ(short_name("()"), "()");
  EXPECT_EQ(short_name(")"), ")");
}

}  // namespace
}  // namespace ptxbench::base
