#pragma once
/* Every function of the real libraries exists in ours. Those without an implementation are weak definitions generated
   from the lists of names (cudart_symbols.txt, cuda_symbols.txt) that end the process with their name. */
#ifdef __cplusplus
extern "C"
#else
extern
#endif
    __attribute__((noreturn, visibility("default"))) void
    ptxbench_unsupported_call(const char* name);
