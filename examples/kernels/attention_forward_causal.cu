// attention_forward.cu with the causal mask: query i sees the keys j <= i.
#define ATTENTION_CAUSAL 1
#include "attention_forward.cu"
