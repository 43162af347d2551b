#include "candidate/machine_code.h"

#include <gtest/gtest.h>

namespace ptxbench::candidate {
namespace {

constexpr char kDump[] = R"(
Fatbin elf code:
================
arch = sm_90a
	code for sm_90a
		Function : _Z4gemmv
	.headerflags	@"EF_CUDA_TEXMODE_UNIFIED EF_CUDA_64BIT_ADDRESS"
        /*0000*/                   LDC R1, c[0x0][0x28] ;                                   /* 0x00000a00ff017b82 */
                                                                                            /* 0x000fc20000000a00 */
        /*0010*/              @!P0 SYNCS.ARRIVE.TRANS64.RED.A1T0 RZ, [R5+URZ], RZ ;         /* 0x000000ff05ff89a7 */
        /*0bd0*/                   HGMMA.64x256x16.F32.BF16 R24, gdesc[UR8], R24 ;          /* 0x03e00000081879f0 */
        /*2660*/                   UTMALDG.2D [UR4], [UR10] ;                               /* 0x000000040a0075b4 */
        /*2670*/                   UTMACMDFLUSH ;                                           /* 0x00000000000079b7 */
        // HGMMA in a comment
        HGMMA.64x256x16.F32.BF16 without an address
		Function : other
        /*0000*/             @UP0  UTMACCTL.PF [UR4] ;                                      /* 0x0 */
        /*xyz0*/                   NOP ;
)";

TEST(MachineCode, ReadsLinesWithAnAddressOnly) {
  const MachineCode code = parse_disassembly(kDump);
  ASSERT_EQ(code.size(), 2u);
  const auto& gemm = code.at("_Z4gemmv");
  ASSERT_EQ(gemm.size(), 5u);
  EXPECT_EQ(gemm[0].offset, 0u);
  EXPECT_EQ(gemm[0].opcode, "LDC");
  EXPECT_EQ(gemm[1].opcode, "SYNCS.ARRIVE.TRANS64.RED.A1T0");
  EXPECT_EQ(gemm[2].offset, 0xbd0u);
  EXPECT_EQ(gemm[2].opcode, "HGMMA.64x256x16.F32.BF16");
  EXPECT_EQ(gemm[4].opcode, "UTMACMDFLUSH");
  ASSERT_EQ(code.at("other").size(), 1u);
  EXPECT_EQ(code.at("other")[0].opcode, "UTMACCTL.PF");
}

TEST(MachineCode, NonsenseGivesNothing) {
  EXPECT_TRUE(parse_disassembly("").empty());
  EXPECT_TRUE(parse_disassembly("/*0000*/ HGMMA.64x8x16 ;\n").empty());
  EXPECT_TRUE(parse_disassembly("Function : f\n/*\n/*0*/\n/*0010*/ @P0\n").at("f").empty());
}

TEST(MachineCode, Families) {
  EXPECT_EQ(machine_family("HGMMA.64x256x16.F32.BF16"), "wgmma");
  EXPECT_EQ(machine_family("QGMMA.64x128x32.F32.E4M3.E4M3"), "wgmma");
  EXPECT_EQ(machine_family("HMMA.16816.F32.BF16"), "mma.sync");
  EXPECT_EQ(machine_family("UTMALDG.2D.MULTICAST"), "tma.load");
  EXPECT_EQ(machine_family("UTMASTG.2D"), "tma.store");
  EXPECT_EQ(machine_family("UTMAREDG.2D.ADD"), "tma.reduce");
  // They move no data; one-dimensional copies are no tensor copies; bookkeeping is no product.
  EXPECT_EQ(machine_family("UTMACCTL.PF"), "other");
  EXPECT_EQ(machine_family("UTMAPF.L2.2D"), "other");
  EXPECT_EQ(machine_family("UTMACMDFLUSH"), "other");
  EXPECT_EQ(machine_family("UBLKCP.S.G"), "bulk.copy");
  EXPECT_EQ(machine_family("UTCHMMA.2CTA"), "tcgen05.mma");
  EXPECT_EQ(machine_family("UTCATOMSWS"), "tcgen05.alloc");
  EXPECT_EQ(machine_family("HGMMAX"), "other");
}

TEST(MachineCode, MultiplyAdds) {
  EXPECT_EQ(machine_multiply_adds("HGMMA.64x256x16.F32.BF16"), 64 * 256 * 16 / 4);
  EXPECT_EQ(machine_multiply_adds("QGMMA.64x8x32.F32.E4M3.E4M3"), 64 * 8 * 32 / 4);
  EXPECT_EQ(machine_multiply_adds("HMMA.16816.F32.BF16"), 16 * 8 * 16);
  EXPECT_EQ(machine_multiply_adds("HMMA.1688.F32.TF32"), 16 * 8 * 8);
  EXPECT_EQ(machine_multiply_adds("IMMA.16832.S8.S8.SAT"), 16 * 8 * 32);
  EXPECT_EQ(machine_multiply_adds("FFMA"), std::nullopt);
  EXPECT_EQ(machine_multiply_adds("HGMMA.64x256.F32"), std::nullopt);
  EXPECT_EQ(machine_multiply_adds("HGMMA.64x256x16x2.F32"), std::nullopt);
  EXPECT_EQ(machine_multiply_adds("HMMA"), std::nullopt);
}

}  // namespace
}  // namespace ptxbench::candidate
