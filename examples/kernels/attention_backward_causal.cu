// attention_backward.cu with the causal mask: query i has seen the keys j <= i.
#define ATTENTION_CAUSAL 1
#include "attention_backward.cu"
