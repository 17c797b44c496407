// Softcap of logits. Training applies the cap inside the classifier instead.
#include "common/elementwise.cuh"
#include "runtime/ops.generated.h"

namespace gpt2 {

namespace {

struct Softcap {
  float cap;
  __device__ float operator()(float x, float) const { return softcapped(x, cap).value; }
};

}  // namespace

int ops::softcap_forward(gpt2_context &context, void *out, const void *in, int64_t count, float cap) {
  CudaContext &gpu = cuda(context);
  with_element_type(gpu, [&](auto element) {
    using T = decltype(element);
    auto *x = static_cast<const T *>(in);
    launch_elementwise(gpu, static_cast<T *>(out), x, x, count, Softcap{cap});
  });
  return GPT2_LAUNCHED(context, "gpt2_softcap_forward");
}

}  // namespace gpt2
