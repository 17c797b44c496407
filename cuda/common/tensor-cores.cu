// The tables of tensor-core kernels, and the choice of one for a GPU.
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tensor-cores.h"

namespace gpt2 {

namespace {

const TensorCoreKernels portable_kernels{
    "portable",
    sm80::matmul_forward,
    sm80::matmul_backward_input,
    sm80::matmul_backward_weight,
    sm80::matmul_backward_weight_scratch,
    sm80::takes_head_size,
    sm80::attention_forward,
    sm80::attention_backward,
    nullptr,
    nullptr,
    sm80::fp8_matmul,
    sm80::fp8_matmul_backward_weight,
    sm80::fp8_matmul_backward_weight_scratch,
    sm80::newton_schulz,
};

#ifdef GPT2_SM90
const TensorCoreKernels sm90_kernels{
    "sm90",
    sm90::matmul_forward,
    sm90::matmul_backward_input,
    sm90::matmul_backward_weight,
    sm90::matmul_backward_weight_scratch,
    sm80::takes_head_size,
    sm90::attention_forward,
    sm90::attention_backward,
    sm90::classifier,
    sm90::classifier_scratch,
    sm90::fp8_matmul,
    sm90::fp8_matmul_backward_weight,
    sm90::fp8_matmul_backward_weight_scratch,
    sm90::newton_schulz,
};
#endif

}  // namespace

const TensorCoreKernels *choose_kernels(const cudaDeviceProp &gpu, std::string &why) {
  // The tables that run on this GPU, the fastest first.
  std::vector<const TensorCoreKernels *> tables;
#ifdef GPT2_SM90
  if (gpu.major == 9 && gpu.minor == 0) tables.push_back(&sm90_kernels);
#endif
  tables.push_back(&portable_kernels);
  const char *wanted = std::getenv("GPT2_KERNELS");
  if (!wanted || !*wanted) return tables.front();
  std::string names;
  for (const TensorCoreKernels *table : tables) {
    if (std::strcmp(wanted, table->name) == 0) return table;
    names += (names.empty() ? "" : " or ") + std::string(table->name);
  }
  why = "expected GPT2_KERNELS to be " + names + " on " + gpu.name + ", got " + wanted;
  return nullptr;
}

const char *name_of(const TensorCoreKernels &kernels) { return kernels.name; }

}  // namespace gpt2
