#pragma once

// Functions of plain loops are compiled for several instruction-set levels, and the loader picks one. Results are equal
// at every level as long as the loops use operations that IEEE 754 rounds correctly, fused only where they say so.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define PTXBENCH_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4"), optimize("O3")))
#else
#define PTXBENCH_CLONES
#endif
