#include "ptx/parser.h"

#include <gtest/gtest.h>

#include <bit>
#include <string>

#include "ptx/printer.h"

namespace ptxbench::ptx {
namespace {

constexpr std::string_view kHead = ".version 9.0\n.target sm_90a\n.address_size 64\n";
constexpr std::string_view kRegisters =
    ".reg .pred %p<8>; .reg .b16 %h<8>; .reg .u16 %u<8>; .reg .f16 %x<8>; .reg .b32 %r<300>; .reg .f32 %f<300>; "
    ".reg .b64 %rd<16>; .reg .f64 %fd<8>; .reg .b8 %q<9>; .shared .align 16 .b8 sm[64];\n";

std::string module_text(std::string_view text) { return std::string(kHead) + std::string(text); }
/// The statements stand in line 6.
std::string kernel_text(std::string_view statements) {
  return module_text(".global .align 8 .b8 gm[64];\n.visible .entry k(.param .u64 pa, .param .u32 pb) { " +
                     std::string(kRegisters) + std::string(statements) + "\nret; }\n");
}

Module parse(const std::string& text) {
  auto module = parse_module(text, "t.ptx");
  EXPECT_TRUE(module.has_value()) << (module ? "" : module.error().message) << "\n" << text;
  return module ? std::move(*module) : Module{};
}
Module parse_kernel(std::string_view statements) { return parse(kernel_text(statements)); }
const Function& kernel(const Module& module) { return *module.find_function("k"); }

std::string error_of(const std::string& text) {
  const auto module = parse_module(text, "t.ptx");
  return module ? "accepted" : module.error().message;
}
std::string kernel_error(std::string_view statements) { return error_of(kernel_text(statements)); }

/// What the printer makes of the first instruction.
std::string reprinted(std::string_view statement) {
  const Module module = parse_kernel(statement);
  if (module.functions.empty() || kernel(module).instructions.empty()) return "";
  return print_instruction(module, kernel(module), kernel(module).instructions[0]);
}

TEST(Parser, ReadsVersionTargetAndAddressSize) {
  const Module module = parse(".version 8.7\n.target sm_90a, debug\n.address_size 64\n");
  EXPECT_EQ(module.version_major, 8u);
  EXPECT_EQ(module.version_minor, 7u);
  EXPECT_EQ(module.target, "sm_90a");
  EXPECT_EQ(module.target_options, std::vector<std::string>{"debug"});
}

TEST(Parser, ReadsAnInstruction) {
  const Module module = parse_kernel("\n  @!%p1 ld.global.v2.f32 {%f1, _}, [%rd1+-8];");
  const Instruction& load = kernel(module).instructions.at(0);
  EXPECT_EQ(load.op, Op::ld);
  EXPECT_EQ(load.mods, (std::vector<Mod>{Mod::global, Mod::v2, Mod::type_f32}));
  EXPECT_EQ(load.type(), Type::f32);
  EXPECT_EQ(load.space(), StateSpace::global);
  ASSERT_NE(load.guard, kNone);
  EXPECT_EQ(kernel(module).registers[load.guard].name, "%p1");
  EXPECT_TRUE(load.guard_negated);
  ASSERT_EQ(load.operands.size(), 2u);
  ASSERT_EQ(load.operands[0].kind, OperandKind::vector);
  EXPECT_EQ(load.operands[0].elements[0].kind, OperandKind::reg);
  EXPECT_EQ(load.operands[0].elements[1].kind, OperandKind::sink);
  ASSERT_EQ(load.operands[1].kind, OperandKind::address);
  EXPECT_EQ(static_cast<int64_t>(load.operands[1].bits), -8);
  EXPECT_EQ(load.position.line, 7u);
  EXPECT_EQ(load.position.column, 9u);
}

TEST(Parser, ListsOnlyRegistersInUse) {
  const Module module = parse_kernel("add.u32 %r7, %r200, %r7;");
  ASSERT_EQ(kernel(module).registers.size(), 2u);
  EXPECT_EQ(kernel(module).registers[0].name, "%r7");
  EXPECT_EQ(kernel(module).registers[1].name, "%r200");
  EXPECT_EQ(kernel(module).registers[0].type, Type::b32);
}

TEST(Parser, RangesMayEndInDigits) {
  const Module module = parse_kernel(".reg .b32 a1<20>; .reg .b64 a<3>; mov.u32 a119, 1; mov.u64 a2, 1;");
  EXPECT_EQ(kernel(module).registers[0].type, Type::b32);
  EXPECT_EQ(kernel(module).registers[1].type, Type::b64);
  EXPECT_NE(kernel_error(".reg .b32 a<3>; mov.u32 a3, 1;").find("'a<3>' ends at 'a2'"), std::string::npos);
  EXPECT_NE(kernel_error(".reg .b32 a<3>; mov.u32 a01, 1;").find("unknown"), std::string::npos);
}

TEST(Parser, ScopesShadowRegistersAndLabels) {
  const Module module = parse_kernel(
      "{ .reg .b32 t; L: mov.u32 t, 1; bra L; }\n"
      "{ .reg .b64 t; L: mov.u64 t, 1; bra L; { bra M; } }\nM: bra N; N:");
  const Function& function = kernel(module);
  ASSERT_EQ(function.registers.size(), 2u);
  EXPECT_EQ(function.registers[0].type, Type::b32);
  EXPECT_EQ(function.registers[1].type, Type::b64);
  // bra L, bra L, bra M, bra N
  std::vector<uint32_t> targets;
  for (const Instruction& instruction : function.instructions)
    if (instruction.op == Op::bra) targets.push_back(function.labels[instruction.operands[0].index].instruction);
  EXPECT_EQ(targets, (std::vector<uint32_t>{0, 2, 5, 6}));
}

TEST(Parser, InnerLabelsAreNotSeenOutside) {
  EXPECT_NE(kernel_error("bra L; { L: }").find("unknown label 'L'"), std::string::npos);
  EXPECT_NE(kernel_error("L: L: ").find("duplicate label 'L'"), std::string::npos);
}

TEST(Parser, BranchTargets) {
  const Module module = parse_kernel("ts: .branchtargets A, B, A; brx.idx %r1, ts; A: mov.u32 %r1, 1; B:");
  const Function& function = kernel(module);
  const Instruction& branch = function.instructions.at(0);
  ASSERT_EQ(branch.operands[1].kind, OperandKind::target_list);
  const Label& list = function.labels[branch.operands[1].index];
  ASSERT_EQ(list.targets.size(), 3u);
  EXPECT_EQ(function.labels[list.targets[0]].name, "A");
  EXPECT_EQ(function.labels[list.targets[1]].instruction, 2u);
  EXPECT_EQ(list.targets[0], list.targets[2]);
}

TEST(Parser, Constants) {
  const auto value = [](std::string_view text) {
    const Module module = parse_kernel("mov.u64 %rd1, " + std::string(text) + ";");
    return static_cast<int64_t>(kernel(module).instructions.at(0).operands.at(1).bits);
  };
  EXPECT_EQ(value("0x1F"), 31);
  EXPECT_EQ(value("017"), 15);
  EXPECT_EQ(value("0b101"), 5);
  EXPECT_EQ(value("12U"), 12);
  EXPECT_EQ(value("WARP_SZ"), 32);
  EXPECT_EQ(value("-1"), -1);
  EXPECT_EQ(value("1 + 2 * 3"), 7);
  EXPECT_EQ(value("(1 + 2) * 3"), 9);
  EXPECT_EQ(value("1 << 3 | 1"), 9);
  EXPECT_EQ(value("5 > 3 ? 10 : 20"), 10);
  EXPECT_EQ(value("-7 / 2"), -3);
  EXPECT_EQ(value("-8 >> 1"), -4);
  EXPECT_EQ(value("-8U >> 1"), 0x7ffffffffffffffc);
  EXPECT_EQ(value("~0"), -1);
  EXPECT_EQ(value("!5"), 0);
  EXPECT_EQ(value("(.u64) -1 / 2"), 0x7fffffffffffffff);
  EXPECT_EQ(value("10 - 2 - 3"), 5);
}

TEST(Parser, FloatConstantsTakeTheirOperandsWidth) {
  const auto first = [](std::string_view text) { return kernel(parse_kernel(text)).instructions.at(0).operands.at(1); };
  Operand operand = first("mov.f32 %f1, 0f3FC00000;");
  EXPECT_TRUE(operand.is_f32);
  EXPECT_EQ(operand.bits, 0x3FC00000u);
  operand = first("mov.f32 %f1, 1.5;");
  EXPECT_TRUE(operand.is_f32);
  EXPECT_EQ(operand.bits, 0x3FC00000u);
  operand = first("mov.f64 %fd1, -2.0;");
  EXPECT_FALSE(operand.is_f32);
  EXPECT_EQ(operand.bits, std::bit_cast<uint64_t>(-2.0));
  operand = first("mov.f64 %fd1, 0f40000000;");
  EXPECT_FALSE(operand.is_f32);
  EXPECT_EQ(operand.bits, std::bit_cast<uint64_t>(2.0));
}

TEST(Parser, SpecialRegisters) {
  const Operand operand = kernel(parse_kernel("mov.u32 %r1, %cluster_ctaid.y;")).instructions.at(0).operands.at(1);
  EXPECT_EQ(operand.kind, OperandKind::special);
  EXPECT_EQ(static_cast<SpecialRegister>(operand.index), SpecialRegister::cluster_ctaid_y);
}

TEST(Parser, VectorRegisters) {
  const Module module = parse_kernel(".reg .v4 .f32 v; ld.global.v4.f32 v, [%rd1]; mov.f32 %f1, v.z;");
  const Function& function = kernel(module);
  ASSERT_EQ(function.instructions[0].operands[0].elements.size(), 4u);
  const uint32_t z = function.instructions[0].operands[0].elements[2].index;
  EXPECT_EQ(function.registers[z].name, "v.z");
  EXPECT_EQ(function.instructions[1].operands[1].index, z);
}

TEST(Parser, GlobalVariables) {
  const Module module = parse(module_text(
      ".visible .global .align 4 .u32 a[2][3] = {{1, 2}, {4}};\n.const .f32 c = 1.5;\n.extern .shared .align 16 .b8 "
      "s[];\n"
      ".global .attribute(.managed) .u32 m;\n.global .u64 p[2] = {generic(a)+4, a};\n.global .v2 .f32 v = {1.0, 2.0};\n"
      ".global .b8 bytes[] = {1, 2, 3};\n.global .u8 part[2] = {0xff(a), 0xff00(generic(a))};\n.global .u16 x, "
      "y[2];\n"));
  ASSERT_EQ(module.variables.size(), 10u);
  const Variable& a = module.variables[0];
  EXPECT_TRUE(a.is_visible);
  EXPECT_EQ(a.size, 24u);
  EXPECT_EQ(a.dimensions, (std::vector<uint64_t>{2, 3}));
  ASSERT_EQ(a.data.size(), 24u);
  EXPECT_EQ(std::to_integer<int>(a.data[4]), 2);
  // ptxas packs the values of rows that are not full.
  EXPECT_EQ(std::to_integer<int>(a.data[8]), 4);
  EXPECT_EQ(std::to_integer<int>(module.variables[1].data[3]), 0x3f);
  EXPECT_TRUE(module.variables[2].is_extern);
  EXPECT_EQ(module.variables[2].size, 0u);
  EXPECT_EQ(module.variables[2].alignment, 16u);
  EXPECT_EQ(module.variables[3].attributes, std::vector<std::string>{".managed"});
  const Variable& p = module.variables[4];
  ASSERT_EQ(p.relocations.size(), 2u);
  EXPECT_TRUE(p.relocations[0].generic);
  EXPECT_EQ(p.relocations[0].addend, 4);
  EXPECT_EQ(p.relocations[1].offset, 8u);
  EXPECT_FALSE(p.relocations[1].generic);
  EXPECT_EQ(module.variables[5].size, 8u);
  EXPECT_EQ(module.variables[5].alignment, 8u);
  EXPECT_EQ(module.variables[6].dimensions, std::vector<uint64_t>{3});
  EXPECT_EQ(module.variables[7].relocations[1].mask, 0xff00u);
  EXPECT_EQ(module.variables[9].size, 4u);
}

TEST(Parser, EntryParametersAndDirectives) {
  const Module module = parse(module_text(
      ".visible .entry k(.param .u64 .ptr .global .align 16 a, .param .align 8 .b8 b[24])\n.maxntid 128, 2, 1\n"
      ".minnctapersm 2\n.maxnreg 96\n.reqnctapercluster 2, 1, 1\n.explicitcluster\n.maxclusterrank 8\n{ ret; }\n"));
  const Function& function = kernel(module);
  ASSERT_EQ(function.parameters.size(), 2u);
  const Variable& a = function.variables[function.parameters[0]];
  EXPECT_TRUE(a.pointer);
  EXPECT_EQ(a.pointer_space, StateSpace::global);
  EXPECT_EQ(a.pointer_alignment, 16u);
  EXPECT_EQ(a.alignment, 8u);
  EXPECT_EQ(function.variables[function.parameters[1]].size, 24u);
  EXPECT_EQ(function.maxntid[0], 128u);
  EXPECT_EQ(function.maxntid[1], 2u);
  EXPECT_EQ(function.minnctapersm, 2u);
  EXPECT_EQ(function.maxnreg, 96u);
  EXPECT_EQ(function.reqnctapercluster[0], 2u);
  EXPECT_TRUE(function.explicit_cluster);
  EXPECT_EQ(function.maxclusterrank, 8u);
}

TEST(Parser, Calls) {
  const Module module = parse(module_text(
      ".extern .func (.param .b32 r) f(.param .b32 a, .param .b64 b);\n.func g() .noreturn { trap; }\n"
      ".visible .entry k() { .reg .b32 %r<3>; .reg .b64 %rd<3>; { .param .b32 p0; .param .b64 p1; .param .b32 r0;\n"
      "call.uni (r0), f, (p0, p1); call g;\n"
      "proto: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b64 _);\n"
      "call (r0), %rd1, (p0, p1), proto; } ret; }\n"));
  const Function& function = kernel(module);
  const Instruction& call = function.instructions.at(0);
  EXPECT_EQ(call.operands.at(0).elements.size(), 1u);
  EXPECT_EQ(call.operands.at(1).kind, OperandKind::function);
  EXPECT_EQ(module.functions[call.operands[1].index].name, "f");
  EXPECT_EQ(call.operands.at(2).elements.size(), 2u);
  EXPECT_TRUE(module.functions[1].noreturn);
  const Instruction& indirect = function.instructions.at(2);
  ASSERT_EQ(indirect.operands.size(), 4u);
  const Label& prototype = function.labels[indirect.operands[3].index];
  EXPECT_TRUE(prototype.is_prototype);
  EXPECT_EQ(prototype.prototype_params, (std::vector<uint64_t>{4, 8}));
}

TEST(Parser, LocationsFollowInstructions) {
  const Module module = parse(module_text(
      ".file 1 \"a.cu\"\n.file 2 \"b.h\", 1700000000, 42\n.visible .entry k() { .reg .b32 %r<3>;\n.loc 1 17 3\n"
      "mov.u32 %r1, 1;\n.loc 2 5 1, function_name $L__info_string0, inlined_at 1 17 3\nmov.u32 %r2, 1; ret; }\n"
      ".section .debug_str { $L__info_string0:\n.b8 102,0\n}\n"));
  EXPECT_EQ(module.file_path(2), "b.h");
  EXPECT_EQ(kernel(module).instructions[0].line, 17u);
  EXPECT_EQ(kernel(module).instructions[0].file, 1u);
  EXPECT_EQ(kernel(module).instructions[1].file, 2u);
}

TEST(Parser, Aliases) {
  const Module module = parse(module_text(".visible .func f() { ret; }\n.visible .func g();\n.alias g, f;\n"));
  EXPECT_EQ(module.find_function("g")->name, "f");
}

TEST(Parser, HopperInstructions) {
  for (const std::string_view text : {
           "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], %r2;",
           "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], %r2;",
           "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r1], 1;",
           "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3}], "
           "[%r4];",
           "cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%rd1, {%r1, %r2, %r3, %r4, %r5}], [%r6];",
           "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster "
           "[%r1], "
           "[%rd1, {%r2, %r3, %r4}], [%r5], {%h1}, %h2;",
           "setmaxnreg.inc.sync.aligned.u32 240;",
           "wgmma.fence.sync.aligned;",
           "wgmma.wait_group.sync.aligned 0;",
           "elect.sync _|%p1, -1;",
           "fence.proxy.async.shared::cta;",
           "griddepcontrol.launch_dependents;",
           "atom.add.release.gpu.global.s32 %r1, [%rd1], %r2;",
           "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r1], %r2, [%r3];",
       })
    EXPECT_EQ(reprinted(text), text);
  EXPECT_EQ(
      reprinted("mma.sync.aligned\n .m16n8k16.row.col.f32.bf16.bf16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, "
                "{%r5,%r6}, {%f1,%f2,%f3,%f4};"),
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, "
      "{%f1, %f2, %f3, %f4};");
}

TEST(Parser, WgmmaRegisterCounts) {
  const auto wgmma = [](unsigned n, unsigned registers, std::string_view rest) {
    std::string text = "wgmma.mma_async.sync.aligned.m64n" + std::to_string(n) + "k16.f32.f16.f16 {";
    for (unsigned i = 0; i < registers; ++i) text += (i == 0 ? "%f" : ", %f") + std::to_string(i);
    return text + "}, " + std::string(rest) + ";";
  };
  EXPECT_EQ(kernel_error(wgmma(256, 128, "%rd1, %rd2, %p1, 1, 1, 0, 1")), "accepted");
  EXPECT_EQ(kernel_error(wgmma(8, 4, "{%r1, %r2, %r3, %r4}, %rd2, 1, 1, -1, 0")), "accepted");
  EXPECT_NE(kernel_error(wgmma(16, 4, "%rd1, %rd2, %p1, 1, 1, 0, 1"))
                .find("a vector of 8 registers of type .f32 as operand 1"),
            std::string::npos);
  EXPECT_NE(kernel_error(wgmma(12, 4, "%rd1, %rd2, %p1, 1, 1, 0, 1")).find("unknown modifier '.m64n12k16'"),
            std::string::npos);
}

struct ErrorCase {
  std::string_view statement;
  std::string_view message;  ///< without "t.ptx:"
};

class ParserErrors : public ::testing::TestWithParam<ErrorCase> {};

TEST_P(ParserErrors, NamesPlaceExpectationAndNearestSpelling) {
  EXPECT_EQ(kernel_error(GetParam().statement), "t.ptx:" + std::string(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    All, ParserErrors,
    ::testing::Values(
        ErrorCase{"ad.u32 %r1, %r2, %r3;", "6:1: unknown instruction 'ad'; did you mean 'add'?"},
        ErrorCase{"wgmma.mma_asinc.sync.aligned.m64n8k16.f32.f16.f16 %r1;",
                  "6:1: unknown instruction 'wgmma.mma_asinc.sync.aligned.m64n8k16.f32.f16.f16'"},
        ErrorCase{"ld.globl.u32 %r1, [%rd1];",
                  "6:4: 'ld.globl.u32': unknown modifier '.globl'; did you mean 'global'?"},
        ErrorCase{"add.rn.u32 %r1, %r2, %r3;",
                  "6:5: 'add.rn.u32': modifier '.rn' does not go with the others; the form is "
                  "'add(.u16|.u32|.u64|.s16|.s32|.s64)'"},
        ErrorCase{"mul.u32 %r1, %r2, %r3;", "6:1: 'mul.u32': expected '.lo' or '.hi', found none of them"},
        ErrorCase{"add.u32 %r1, %r2, %h3;",
                  "6:19: add.u32: expected a register of type .u32 or a constant as operand 3, found register '%h3' of "
                  "type .b16"},
        ErrorCase{"add.u32 %r1, %r2;",
                  "6:17: add.u32: expected a register of type .u32 or a constant as operand 3, found the end of the "
                  "instruction"},
        ErrorCase{"add.u32 %r1, %r2, %r3, %r4;", "6:24: add.u32: expected 3 operands, found 4"},
        ErrorCase{
            "add.f32 %f1, %f2, 1;",
            "6:19: add.f32: expected a register of type .f32 or a constant as operand 3, found integer constant 1"},
        ErrorCase{"add.f16 %h1, %u2, %h3;",
                  "6:14: add.f16: expected a register of type .f16 as operand 2, found register '%u2' of type .u16"},
        ErrorCase{"add.u32 %r1, %tid.x, %r3;",
                  "6:14: add.u32: expected a register of type .u32 or a constant as operand 2, found special register "
                  "'%tid.x'"},
        ErrorCase{"mov.u32 %r1, %tid.q;", "6:14: unknown register '%tid.q'; did you mean '%tid.x'?"},
        ErrorCase{"mov.u32 %r1, %r300;", "6:14: unknown register '%r300': '%r<300>' ends at '%r299'"},
        ErrorCase{"mov.u64 %rd1, gn;", "6:15: unknown name 'gn'; did you mean 'gm'?"},
        ErrorCase{"loop: bra lop;", "6:11: unknown label 'lop'; did you mean 'loop'?"},
        ErrorCase{"@%r1 bra x;", "6:2: expected a predicate register after '@', found '%r1' of type .b32"},
        ErrorCase{"ld.global.u32 %r1, [%rd1-4];",
                  "6:25: expected '+' or ']' in the address, found '-': write a negative offset as '+-4'"},
        ErrorCase{"ld.shared.u32 %r1, [gm];",
                  "6:1: state space mismatch: the instruction is .shared, variable 'gm' is .global"},
        ErrorCase{"ld.global.u32 %r1, [%r2];", "6:1: expected a 64-bit address register, found '%r2' of 32 bits"},
        ErrorCase{"ld.global.v4.f64 {%fd1, %fd2, %fd3, %fd4}, [%rd1];",
                  "6:1: a vector of 4 x 64 bits is wider than 128 bits"},
        ErrorCase{
            "ld.global.v4.f32 {%f1, %f2}, [%rd1];",
            "6:18: ld.global.v4.f32: expected a vector of 4 registers of type .f32 as operand 1, found a vector of 2, "
            "first register '%f1' of type .f32"},
        ErrorCase{
            "wgmma.wait_group.sync.aligned %r1;",
            "6:31: wgmma.wait_group.sync.aligned: expected an integer constant from 0 to 4294967295 as operand 1, "
            "found "
            "register '%r1' of type .b32"},
        ErrorCase{"setmaxnreg.inc.sync.aligned.u32 100;",
                  "6:33: setmaxnreg.inc.sync.aligned.u32: expected an integer constant from 24 to 256 in steps of 8 as "
                  "operand 1, found integer constant 100"},
        ErrorCase{
            "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3}], "
            "[%r4];",
            "6:84: cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes: expected a tensor "
            "address '[map, {c0, ...}]' with 3 coordinates as operand 2, found a tensor address with 2 coordinates"},
        ErrorCase{
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r1], [%rd1], 16, "
            "[%r2], %r3;",
            "6:112: cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster: expected a "
            "register of type .u16 or a constant as operand 5, found register '%r3' of type .b32"},
        ErrorCase{
            "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32;",
            "6:1: instruction 'tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32' needs an sm_100a target, which "
            "is not supported"},
        ErrorCase{"add.rn.f32x2 %rd1, %rd2, %rd3;",
                  "6:1: 'add.rn.f32x2' needs target sm_100 or later, the module's is sm_90a"},
        ErrorCase{"mov.u32 %r1, 1;;", "6:16: expected a statement, found ';': remove the extra semicolon"},
        ErrorCase{"mov.u32 %r1, 1", "7:1: expected ',' or ';' after the operands of 'mov.u32', found 'ret'"},
        ErrorCase{"mov.u32 %r1, 0x12u;", "6:14: '0x12': number runs into a name; separate them or check the digits"},
        ErrorCase{"mov.u32 %r1, 99999999999999999999;",
                  "6:14: '99999999999999999999': integer constant does not fit in 64 bits"},
        ErrorCase{"mov.f32 %f1, 0f3F8;", "6:14: '0f3F8': a 0f constant has exactly 8 hexadecimal digits"},
        ErrorCase{"mov.u32 %r1, 1/0;", "6:15: division by zero in a constant expression"},
        ErrorCase{".rag .b32 x;",
                  "6:1: expected an instruction, a label, a directive or '}', found '.rag'; did you mean '.reg'?"},
        ErrorCase{".reg .bf16 x;", "6:6: expected a register type, found '.bf16'; did you mean '.b16'?"},
        ErrorCase{".reg .b32 x, x;", "6:14: duplicate definition of 'x'"},
        ErrorCase{"tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [%rd1, {%f1,%f2}];",
                  "6:1: instruction 'tex' is not supported"}));

TEST(ParserModuleErrors, NameThePlace) {
  EXPECT_EQ(error_of(""), "t.ptx:1:1: expected '.version' as the first directive, found the end of the text");
  EXPECT_EQ(error_of(".version 9.0\n.target sm_9x\n"), "t.ptx:2:9: expected a target such as sm_90a, found 'sm_9x'");
  EXPECT_EQ(error_of(module_text(".globl .u32 x;")),
            "t.ptx:4:1: expected a module directive, found '.globl'; did you mean '.global'?");
  EXPECT_EQ(error_of(module_text(".global .u31 x;")),
            "t.ptx:4:9: expected a type for the variable, found '.u31'; did you mean 'u32'?");
  EXPECT_EQ(error_of(module_text(".global .u32 x[2] = {1, 2, 3};")), "t.ptx:4:28: too many initialisers for 'x'");
  EXPECT_EQ(error_of(module_text(".global .align 3 .u32 x;")),
            "t.ptx:4:16: alignment 3 is not a power of two up to 32768");
  EXPECT_EQ(error_of(module_text(".entry k() { ret;")), "t.ptx:4:18: function 'k' is never closed; add '}'");
  EXPECT_EQ(error_of(module_text(".entry k() { call f; }")), "t.ptx:4:19: unknown name 'f'; did you mean 'k'?");
  EXPECT_EQ(error_of(module_text("/* ")), "t.ptx:4:1: '/* ': comment is never closed; add '*/'");
  EXPECT_EQ(error_of(".version 9.0\n.target sm_90\n.entry k() { wgmma.fence.sync.aligned; }"),
            "t.ptx:3:14: 'wgmma.fence.sync.aligned' needs target sm_90a, the module's is sm_90");
  EXPECT_EQ(error_of(".version 7.0\n.target sm_90a\n.entry k() { wgmma.fence.sync.aligned; }"),
            "t.ptx:3:14: 'wgmma.fence.sync.aligned' needs '.version 8.0' or later, the module has 7.0");
}

TEST(ParserLimits, RefuseWhatWouldExhaustMemory) {
  EXPECT_NE(error_of(module_text(".global .b8 x[1099511627777];")).find("larger than"), std::string::npos);
  EXPECT_NE(error_of(module_text(".global .b8 x[100000000000] = {1};")).find("initialisers of the module exceed"),
            std::string::npos);
  EXPECT_NE(kernel_error(".reg .b32 x<4000000000>;").find("too long"), std::string::npos);
  EXPECT_NE(kernel_error("mov.u32 %r1, " + std::string(100000, '(') + "1;").find("nested too deeply"),
            std::string::npos);
  EXPECT_NE(kernel_error("mov.u32 %r1, " + std::string(100000, '-') + "1;").find("nested too deeply"),
            std::string::npos);
  EXPECT_NE(kernel_error(std::string(100000, '{')).find("nested more than"), std::string::npos);
  std::string vector = "mov.b64 %rd1, {%r1";
  for (int i = 0; i < 1000000; ++i) vector += ",%r1";
  EXPECT_NE(kernel_error(vector + "};").find("more than 256 elements"), std::string::npos);
  std::string operands = "add.u32 %r1";
  for (int i = 0; i < 1000000; ++i) operands += ",%r1";
  EXPECT_NE(kernel_error(operands + ";").find("too many operands"), std::string::npos);
}

TEST(Printer, InitialisersOfVectorsAreWhole) {
  const std::string text = ".version 9.0\n.target sm_90a\n.address_size 64\n";
  for (const char* variable :
       {".const .v8 .b8 r[] = {3};", ".global .align 1 .v8 .b8 s[7] = {37, 100, 32, 37, 102, 10};",
        ".global .v2 .f32 t[3] = {{0f3F800000, 0f00000000}, {0f40000000, 0f00000000}};"}) {
    const auto module = parse_module(text + variable, "t.ptx");
    ASSERT_TRUE(module.has_value()) << module.error().message;
    const std::string printed = print_module(*module);
    const auto again = parse_module(printed, "printed");
    ASSERT_TRUE(again.has_value()) << again.error().message << "\n" << printed;
    EXPECT_EQ(print_module(*again), printed);
    EXPECT_EQ(again->variables[0].data, module->variables[0].data);
  }
  const auto empty = parse_module(text + ".const .b8 r[] = {};", "t.ptx");
  ASSERT_FALSE(empty.has_value());
  EXPECT_NE(empty.error().message.find("needs at least one value"), std::string::npos) << empty.error().message;
}

}  // namespace
}  // namespace ptxbench::ptx
