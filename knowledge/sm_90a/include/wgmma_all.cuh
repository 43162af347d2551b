// Every n from 8 to 256 in steps of 8, for every type: what wgmma.cuh leaves out.
#pragma once
#include "wgmma.cuh"

#define WGMMA_D4 "%0, %1, %2, %3"
#define WGMMA_R4(c) WGMMA_Q(c, 0)
#define WGMMA_D8 WGMMA_D4 ", %4, %5, %6, %7"
#define WGMMA_R8(c) WGMMA_R4(c), WGMMA_Q(c, 4)
#define WGMMA_D12 WGMMA_D8 ", %8, %9, %10, %11"
#define WGMMA_R12(c) WGMMA_R8(c), WGMMA_Q(c, 8)
#define WGMMA_D16 WGMMA_D12 ", %12, %13, %14, %15"
#define WGMMA_R16(c) WGMMA_R12(c), WGMMA_Q(c, 12)
#define WGMMA_D20 WGMMA_D16 ", %16, %17, %18, %19"
#define WGMMA_R20(c) WGMMA_R16(c), WGMMA_Q(c, 16)
#define WGMMA_D24 WGMMA_D20 ", %20, %21, %22, %23"
#define WGMMA_R24(c) WGMMA_R20(c), WGMMA_Q(c, 20)
#define WGMMA_D28 WGMMA_D24 ", %24, %25, %26, %27"
#define WGMMA_R28(c) WGMMA_R24(c), WGMMA_Q(c, 24)
#define WGMMA_D36 WGMMA_D32 ", %32, %33, %34, %35"
#define WGMMA_R36(c) WGMMA_R32(c), WGMMA_Q(c, 32)
#define WGMMA_D40 WGMMA_D36 ", %36, %37, %38, %39"
#define WGMMA_R40(c) WGMMA_R36(c), WGMMA_Q(c, 36)
#define WGMMA_D44 WGMMA_D40 ", %40, %41, %42, %43"
#define WGMMA_R44(c) WGMMA_R40(c), WGMMA_Q(c, 40)
#define WGMMA_D48 WGMMA_D44 ", %44, %45, %46, %47"
#define WGMMA_R48(c) WGMMA_R44(c), WGMMA_Q(c, 44)
#define WGMMA_D52 WGMMA_D48 ", %48, %49, %50, %51"
#define WGMMA_R52(c) WGMMA_R48(c), WGMMA_Q(c, 48)
#define WGMMA_D56 WGMMA_D52 ", %52, %53, %54, %55"
#define WGMMA_R56(c) WGMMA_R52(c), WGMMA_Q(c, 52)
#define WGMMA_D60 WGMMA_D56 ", %56, %57, %58, %59"
#define WGMMA_R60(c) WGMMA_R56(c), WGMMA_Q(c, 56)
#define WGMMA_D68 WGMMA_D64 ", %64, %65, %66, %67"
#define WGMMA_R68(c) WGMMA_R64(c), WGMMA_Q(c, 64)
#define WGMMA_D72 WGMMA_D68 ", %68, %69, %70, %71"
#define WGMMA_R72(c) WGMMA_R68(c), WGMMA_Q(c, 68)
#define WGMMA_D76 WGMMA_D72 ", %72, %73, %74, %75"
#define WGMMA_R76(c) WGMMA_R72(c), WGMMA_Q(c, 72)
#define WGMMA_D80 WGMMA_D76 ", %76, %77, %78, %79"
#define WGMMA_R80(c) WGMMA_R76(c), WGMMA_Q(c, 76)
#define WGMMA_D84 WGMMA_D80 ", %80, %81, %82, %83"
#define WGMMA_R84(c) WGMMA_R80(c), WGMMA_Q(c, 80)
#define WGMMA_D88 WGMMA_D84 ", %84, %85, %86, %87"
#define WGMMA_R88(c) WGMMA_R84(c), WGMMA_Q(c, 84)
#define WGMMA_D92 WGMMA_D88 ", %88, %89, %90, %91"
#define WGMMA_R92(c) WGMMA_R88(c), WGMMA_Q(c, 88)
#define WGMMA_D100 WGMMA_D96 ", %96, %97, %98, %99"
#define WGMMA_R100(c) WGMMA_R96(c), WGMMA_Q(c, 96)
#define WGMMA_D104 WGMMA_D100 ", %100, %101, %102, %103"
#define WGMMA_R104(c) WGMMA_R100(c), WGMMA_Q(c, 100)
#define WGMMA_D108 WGMMA_D104 ", %104, %105, %106, %107"
#define WGMMA_R108(c) WGMMA_R104(c), WGMMA_Q(c, 104)
#define WGMMA_D112 WGMMA_D108 ", %108, %109, %110, %111"
#define WGMMA_R112(c) WGMMA_R108(c), WGMMA_Q(c, 108)
#define WGMMA_D116 WGMMA_D112 ", %112, %113, %114, %115"
#define WGMMA_R116(c) WGMMA_R112(c), WGMMA_Q(c, 112)
#define WGMMA_D120 WGMMA_D116 ", %116, %117, %118, %119"
#define WGMMA_R120(c) WGMMA_R116(c), WGMMA_Q(c, 116)
#define WGMMA_D124 WGMMA_D120 ", %120, %121, %122, %123"
#define WGMMA_R124(c) WGMMA_R120(c), WGMMA_Q(c, 120)

// clang-format off
#define WGMMA_OTHER_SHAPES(X) \
  X(8, 4, 5, 6, 7, 8, 9, 10) \
  X(16, 8, 9, 10, 11, 12, 13, 14) \
  X(24, 12, 13, 14, 15, 16, 17, 18) \
  X(32, 16, 17, 18, 19, 20, 21, 22) \
  X(40, 20, 21, 22, 23, 24, 25, 26) \
  X(48, 24, 25, 26, 27, 28, 29, 30) \
  X(56, 28, 29, 30, 31, 32, 33, 34) \
  X(72, 36, 37, 38, 39, 40, 41, 42) \
  X(80, 40, 41, 42, 43, 44, 45, 46) \
  X(88, 44, 45, 46, 47, 48, 49, 50) \
  X(96, 48, 49, 50, 51, 52, 53, 54) \
  X(104, 52, 53, 54, 55, 56, 57, 58) \
  X(112, 56, 57, 58, 59, 60, 61, 62) \
  X(120, 60, 61, 62, 63, 64, 65, 66) \
  X(136, 68, 69, 70, 71, 72, 73, 74) \
  X(144, 72, 73, 74, 75, 76, 77, 78) \
  X(152, 76, 77, 78, 79, 80, 81, 82) \
  X(160, 80, 81, 82, 83, 84, 85, 86) \
  X(168, 84, 85, 86, 87, 88, 89, 90) \
  X(176, 88, 89, 90, 91, 92, 93, 94) \
  X(184, 92, 93, 94, 95, 96, 97, 98) \
  X(200, 100, 101, 102, 103, 104, 105, 106) \
  X(208, 104, 105, 106, 107, 108, 109, 110) \
  X(216, 108, 109, 110, 111, 112, 113, 114) \
  X(224, 112, 113, 114, 115, 116, 117, 118) \
  X(232, 116, 117, 118, 119, 120, 121, 122) \
  X(240, 120, 121, 122, 123, 124, 125, 126) \
  X(248, 124, 125, 126, 127, 128, 129, 130)
#define WGMMA_OTHER_INTEGER_SHAPES(X) \
  X(8, 4, 5, 6, 7, 8, 9) \
  X(16, 8, 9, 10, 11, 12, 13) \
  X(24, 12, 13, 14, 15, 16, 17) \
  X(32, 16, 17, 18, 19, 20, 21) \
  X(48, 24, 25, 26, 27, 28, 29) \
  X(80, 40, 41, 42, 43, 44, 45) \
  X(96, 48, 49, 50, 51, 52, 53) \
  X(112, 56, 57, 58, 59, 60, 61) \
  X(144, 72, 73, 74, 75, 76, 77) \
  X(160, 80, 81, 82, 83, 84, 85) \
  X(176, 88, 89, 90, 91, 92, 93) \
  X(208, 104, 105, 106, 107, 108, 109) \
  X(224, 112, 113, 114, 115, 116, 117) \
  X(240, 120, 121, 122, 123, 124, 125)
// clang-format on

#define WGMMA_ALL_TYPES(n, r, s1, s2, s3, s4, s5, s6)        \
  WGMMA_16BIT(bf16, "bf16", n, r, s1, s2, s3, s4, s5, s6)    \
  WGMMA_16BIT(f16, "f16", n, r, s1, s2, s3, s4, s5, s6)      \
  WGMMA_TYPES(n, r, s1, s2, s3, s4, s5)
WGMMA_OTHER_SHAPES(WGMMA_ALL_TYPES)
WGMMA_OTHER_INTEGER_SHAPES(WGMMA_INTEGERS)
