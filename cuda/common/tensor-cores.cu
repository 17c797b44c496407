// The tables of tensor-core kernels, and which one a GPU takes.
#include "tensor-cores.h"

#include <cstdlib>
#include <cstring>

namespace gpt2 {

namespace {

const TensorCoreKernels portable_kernels{
    "portable",
    portable::matmul_forward,
    portable::matmul_backward_input,
    portable::matmul_backward_weight,
    portable::matmul_backward_weight_scratch,
    portable::takes_head_size,
    portable::attention_forward,
    portable::attention_backward,
};

}  // namespace

const TensorCoreKernels *choose_kernels(std::string &why) {
  const char *wanted = std::getenv("GPT2_KERNELS");
  if (!wanted || !*wanted || std::strcmp(wanted, portable_kernels.name) == 0) return &portable_kernels;
  why = std::string("expected GPT2_KERNELS to be one of ") + portable_kernels.name + " on this GPU, got " + wanted;
  return nullptr;
}

const char *name_of(const TensorCoreKernels &kernels) { return kernels.name; }

}  // namespace gpt2
