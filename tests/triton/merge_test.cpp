#include "triton/merge.h"

#include <gmock/gmock.h>

#include "ptx/parser.h"

namespace ptxbench::triton {
namespace {

/// As LLVM writes it: a kernel with a table, an extern array, an extern function, lines and debug sections.
Kernel kernel(const std::string& name, const std::string& value) {
  Kernel out;
  out.name = name;
  out.ptx =
      ".version 8.7\n.target sm_90a\n.address_size 64\n\n"
      ".extern .func  (.param .b32 func_retval0) vprintf\n(\n\t.param .b64 vprintf_param_0,\n"
      "\t.param .b64 vprintf_param_1\n)\n;\n"
      ".global .align 4 .b32 table[2] = {" +
      value +
      ", 1};\n"
      ".extern .shared .align 16 .b8 global_smem[];\n"
      ".visible .entry " +
      name + "(\n\t.param .u64 " + name +
      "_param_0\n)\n.reqntid 128\n{\n"
      "\t.reg .b32 \t%r<3>;\n\t.reg .b64 \t%rd<3>;\n"
      "\t.loc\t1 5 0\n"
      "\tmov.b64 \t%rd1, table;\n"
      "\t.loc\t2 7 3, function_name $L__info_string0, inlined_at 1 6 2\n"
      "\tld.global.b32 \t%r1, [%rd1];\n"
      "\tret;\n}\n"
      "\t.file\t1 \"kernel.py\"\n\t.file\t2 \"/usr/lib/triton/language/standard.py\"\n"
      "\t.section\t.debug_abbrev\n\t{\n.b8 1\n\t}\n"
      "\t.section\t.debug_str\n\t{\n$L__info_string0:\n.b8 115\n.b8 0\n\t}\n";
  return out;
}

TEST(Merge, OneKernelStaysAsItIs) {
  const Kernel one = kernel("k", "3");
  const auto merged = merge_ptx({one});
  ASSERT_TRUE(merged);
  EXPECT_EQ(merged->text, one.ptx);
  EXPECT_EQ(merged->names, std::vector<std::string>{"k"});
}

TEST(Merge, NamesOfTwoKernelsDoNotMeet) {
  const auto merged = merge_ptx({kernel("k", "3"), kernel("k", "4"), kernel("other", "5")});
  ASSERT_TRUE(merged) << merged.error().message;
  EXPECT_EQ(merged->names, (std::vector<std::string>{"k", "k__2", "other"}));
  const auto module = ptx::parse_module(merged->text, "merged");
  ASSERT_TRUE(module) << module.error().message << merged->text;
  int entries = 0;
  for (const ptx::Function& function : module->functions) entries += function.is_entry ? 1 : 0;
  EXPECT_EQ(entries, 3);
  // Each has its own table, and one declaration of what is external serves all.
  std::vector<std::string> tables;
  for (const ptx::Variable& variable : module->variables) {
    if (variable.name.starts_with("table")) tables.push_back(variable.name);
  }
  EXPECT_THAT(tables, testing::UnorderedElementsAre("table", "table__2", "table__3"));
  EXPECT_EQ(merged->text.find(".debug_abbrev"), std::string::npos);
  // Instructions keep their lines, in files that are numbered anew.
  const ptx::Function* second = module->find_function("k__2");
  ASSERT_NE(second, nullptr);
  ASSERT_GE(second->instructions.size(), 2U);
  EXPECT_EQ(second->instructions[0].line, 5U);
  EXPECT_EQ(module->file_path(second->instructions[0].file), "kernel.py");
  EXPECT_EQ(module->file_path(second->instructions[1].file), "/usr/lib/triton/language/standard.py");
  ASSERT_FALSE(second->call_sites.empty());
  EXPECT_EQ(second->call_sites[0].line, 6U);
}

TEST(Merge, OtherTextIsAnErrorWithItsPlace) {
  Kernel broken = kernel("k", "3");
  broken.ptx += "\nnonsense\n";
  EXPECT_THAT(merge_ptx({kernel("a", "1"), broken}).error().message, testing::HasSubstr("k.ptx:"));
  Kernel missing = kernel("k", "3");
  missing.name = "absent";
  EXPECT_THAT(merge_ptx({kernel("a", "1"), missing}).error().message, testing::HasSubstr("no kernel absent"));
}

}  // namespace
}  // namespace ptxbench::triton
