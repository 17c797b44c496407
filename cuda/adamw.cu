// AdamW (Loshchilov and Hutter 2019) over an array of parameters, and the rounding of master weights to bf16.
// Memory-bound: moves 28 bytes per parameter in bf16 (gradient and weight 2 each; m, v and master 8 each).
#include "common/device.cuh"
#include "runtime/checks.h"
#include "runtime/ops.generated.h"

namespace gpt2 {

namespace {

struct Scalars {
  int first;  // index of 1 - beta1^t in the step block; 1 - beta2^t follows it
  float rate, beta1, beta2, eps, weight_decay;
};

// W is the weights' type, G the gradients'. If W is float, `weight` and `master` are the same memory.
template <class W, class G, int V>
__device__ __forceinline__ void update(W *weight, float *master, float *m, float *v, const G *gradient, int64_t at,
                                       const Scalars &scalars, float learning_rate, float correction1,
                                       float correction2, float clip) {
  float g[V], first[V], second[V], value[V];
  load(g, gradient + at);
  load(first, m + at);
  load(second, v + at);
  load(value, master + at);
#pragma unroll
  for (int i = 0; i < V; i++) {
    const float x = g[i] * clip;
    first[i] = scalars.beta1 * first[i] + (1.0f - scalars.beta1) * x;
    second[i] = scalars.beta2 * second[i] + (1.0f - scalars.beta2) * x * x;
    const float direction = first[i] * correction1 / (sqrtf(second[i] * correction2) + scalars.eps);
    value[i] -= learning_rate * (direction + scalars.weight_decay * value[i]);
  }
  store(m + at, first);
  store(v + at, second);
  store(master + at, value);
  if constexpr (sizeof(W) == 2) store(weight + at, value);
}

template <class W, class G>
__global__ void __launch_bounds__(256) adamw_kernel(W *weight, float *master, float *m, float *v, const G *gradient,
                                                    const float *step, int64_t count, Scalars scalars) {
  if (step[GPT2_STEP_UPDATED] == 0) return;
  const float learning_rate = scalars.rate * step[GPT2_STEP_LEARNING_RATE];
  const float correction1 = 1.0f / step[scalars.first];
  const float correction2 = 1.0f / step[scalars.first + 1];
  const float clip = step[GPT2_STEP_CLIP];
  const int64_t at = (static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x) * 4;
  if (at + 4 <= count) {
    update<W, G, 4>(weight, master, m, v, gradient, at, scalars, learning_rate, correction1, correction2, clip);
  } else {
    for (int64_t i = at; i < count; i++) {
      update<W, G, 1>(weight, master, m, v, gradient, i, scalars, learning_rate, correction1, correction2, clip);
    }
  }
}

__global__ void __launch_bounds__(256) cast_kernel(bf16 *weight, const float *master, int64_t count) {
  const int64_t at = (static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x) * 4;
  if (at + 4 <= count) {
    float value[4];
    load(value, master + at);
    store(weight + at, value);
  } else {
    for (int64_t i = at; i < count; i++) weight[i] = from_float<bf16>(master[i]);
  }
}

unsigned blocks_for(int64_t count) { return static_cast<unsigned>(ceil_divide(count, 4 * 256)); }

}  // namespace

void ops::adamw(Context &gpu, void *weight, float *master, float *m, float *v, const void *gradient, const float *step,
                int64_t count, int gradient_dtype, int first_scalar, float rate, float beta1, float beta2, float eps,
                float weight_decay) {
  check_that(gradient_dtype == GPT2_FP32 || gpu.dtype == GPT2_BF16,
             "gradient_dtype fp32 or the context's, got " + std::to_string(gradient_dtype));
  check_that(gpu.dtype == GPT2_BF16 || weight == master,
             "weight and master to be the same memory, as they are in fp32 and tf32");
  const Scalars scalars{first_scalar, rate, beta1, beta2, eps, weight_decay};
  with_types(gpu, gradient_dtype == GPT2_BF16, [&](auto weight_element, auto gradient_element) {
    adamw_kernel<<<blocks_for(count), 256, 0, gpu.stream>>>(
        static_cast<decltype(weight_element) *>(weight), master, m, v,
        static_cast<const decltype(gradient_element) *>(gradient), step, count, scalars);
  });
}

void runtime::cast_weights(Context &gpu, void *weight, const float *master, int64_t count) {
  check_sizes({{"count", count}});
  check_tensors({{"weight", weight}, {"master", master}});
  if (gpu.dtype != GPT2_BF16) {
    if (weight != master) copy_on_device(gpu, weight, master, count * static_cast<int64_t>(sizeof(float)));
    return;
  }
  cast_kernel<<<blocks_for(count), 256, 0, gpu.stream>>>(static_cast<bf16 *>(weight), master, count);
  gpu.check_launches();
}

}  // namespace gpt2
