// The residual sum. Training uses the matmuls' epilogues instead (matmul.cuh, sm90/product-*.cuh).
#include "common/elementwise.cuh"
#include "runtime/ops.generated.h"

namespace gpt2 {

namespace {

struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};

}  // namespace

int ops::residual_forward(gpt2_context &context, void *out, const void *a, const void *b, int64_t count) {
  CudaContext &gpu = cuda(context);
  with_element_type(gpu, [&](auto element) {
    using T = decltype(element);
    launch_elementwise(gpu, static_cast<T *>(out), static_cast<const T *>(a), static_cast<const T *>(b), count, Sum{});
  });
  return GPT2_LAUNCHED(context, "gpt2_residual_forward");
}

}  // namespace gpt2
