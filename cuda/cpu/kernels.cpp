// The table of the kernels of one code path.
#include "kernels.h"

namespace gpt2::GPT2_PATH {

#define GPT2_ENTRY(name) name,
extern const Kernels kernels;
const Kernels kernels = {{GPT2_OP_KERNELS(GPT2_ENTRY)}, square_sum, &fp32_engine, &bf16_engine};
#undef GPT2_ENTRY

}  // namespace gpt2::GPT2_PATH
