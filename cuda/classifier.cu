// gpt2_classifier: the last linear layer, its loss and the gradients. A fused kernel computes all of them, if the GPU
// has one that supports the case (bf16; dbias only with dweight). Otherwise a sequence of ops does. With FP8, the
// sequence computes the logits by an FP8 matmul and rounds their gradient to E5M2; its backward matmuls run in bf16.
#include <algorithm>
#include <string>

#include "common/fp8.cuh"
#include "common/tensor-cores.h"
#include "cross-entropy.cuh"
#include "embedding-backward.cuh"
#include "runtime/ops.generated.h"

namespace gpt2 {

namespace {

bool has_kernel(const CudaContext &context, int C, int Vp) {
  return context.kernels->classifier && context.dtype == GPT2_BF16 && C % 8 == 0 && Vp % 8 == 0;
}

constexpr int threads = 256;

// A block replaces a row of logits by its gradient, rounded to E5M2 except at the target, and stores the row's loss.
__global__ void __launch_bounds__(threads)
    fp8_cross_entropy_kernel(float *losses, float *saturated, bf16 *logits, const float *in_scale,
                             const int32_t *targets, int vocabulary, int padded, float dloss, float cap) {
  const int64_t row = blockIdx.x;
  bf16 *x = logits + row * padded;
  const int target = targets[row], stride = sample_stride(padded);
  const auto limited = [&](int column) {
    const float logit = to_float(x[column]);
    return cap > 0 ? softcapped(logit, cap) : Softcapped{logit, 1};
  };
  const bool exists = target >= 0 && target < vocabulary && !is_not_finite(in_scale[row]);
  // Replaces the target's logit. Infinity (for a target of -1) makes every exponential, the loss and the gradient 0.
  const float missing = target == -1 ? INFINITY : NAN;
  const Softcapped wanted = exists ? limited(target) : Softcapped{missing, 1};
  // exp(value - target's logit - above), at most exp(77); 0 for target and padding. NaN stays NaN. `above`: see Fp8Row.
  const auto exponential = [&](int column, float value, float above) {
    const float difference = value - wanted.value - above;
    return column == target || column >= vocabulary ? 0 : expf(difference > 77 ? 77 : difference);
  };
  float sum = 0;
  for (int column = static_cast<int>(threadIdx.x) * stride; column < vocabulary; column += threads * stride) {
    sum += exponential(column, limited(column).value, 0);
  }
  const float above = logf(fp8_of_target + static_cast<float>(stride) * block_sum<threads>(sum)) - logf(fp8_of_estimate);
  sum = 0;
  for (int column = static_cast<int>(threadIdx.x); column < padded; column += threads) {
    sum += exponential(column, limited(column).value, above);
  }
  sum = block_sum<threads>(sum);
  const Fp8Row numbers = Fp8Row::of(sum, above, wanted.derivative, dloss);
  for (int column = static_cast<int>(threadIdx.x); column < padded; column += threads) {
    const Softcapped logit = limited(column);
    const float e = unpack_e5m2(pack_e5m2(exponential(column, logit.value, above) * logit.derivative, 0));
    const float gradient = column == target ? numbers.of_target : e * numbers.scale;
    x[column] = __float2bfloat16_rn(column < vocabulary ? gradient : 0);
  }
  if (threadIdx.x > 0) return;
  losses[row] = numbers.loss;
  saturated[row] = numbers.saturated;
}

}  // namespace

void ops::classifier(Context &gpu, float *losses, void *din, void *dweight, float *dbias, float *step, void *logits,
                     const void *in, const uint8_t *in_values, const float *in_scale, const void *weight,
                     const uint8_t *weight_values, const uint8_t *weight_transposed, const float *factors,
                     const void *bias, const int32_t *targets, int N, int C, int V, int Vp, float dloss, float softcap,
                     bool accumulate) {
  if (in_values && (dweight || dbias) && V > most_sorted_tokens) {
    throw Failure{GPT2_UNSUPPORTED, "V = " + std::to_string(V) + " is over the " + std::to_string(most_sorted_tokens) +
                                        " tokens that are sorted for gradients in FP8"};
  }
  const Classifier args{losses, static_cast<bf16 *>(din), dweight, dbias, step, static_cast<bf16 *>(logits),
                        static_cast<const bf16 *>(in), in_values, in_scale, static_cast<const bf16 *>(weight),
                        weight_values, weight_transposed, factors, static_cast<const bf16 *>(bias), targets, N, C, V,
                        Vp, dloss, softcap, accumulate};
  if ((dweight || !dbias) && has_kernel(gpu, C, Vp) &&
      on_16_bytes(din, dweight, logits, in, in_values, weight, weight_values, weight_transposed, bias)) {
    gpu.kernels->classifier(gpu, args, gpu.workspace);
    return;
  }
  // A sequence of other ops, for other GPUs, dtypes and sizes, and for dbias without dweight.
  if (in_values) {
    fp8_matmul_forward(gpu, logits, nullptr, nullptr, nullptr, nullptr, nullptr, in_values, in_scale, nullptr, nullptr,
                       weight_values, factors, bias, nullptr, N, C, Vp, GPT2_NO_ACTIVATION);
  } else {
    matmul_forward(gpu, logits, nullptr, in, weight, bias, nullptr, N, C, Vp, GPT2_NO_ACTIVATION);
  }
  void *dlogits = din || dweight || dbias ? logits : nullptr;
  if (in_values && dlogits) {
    auto *saturated = static_cast<float *>(gpu.workspace);
    fp8_cross_entropy_kernel<<<N, threads, 0, gpu.stream>>>(losses, saturated, args.logits, in_scale, targets, V, Vp,
                                                            dloss, softcap);
    if (step) add_to_step(gpu, step, GPT2_STEP_SATURATED, saturated, N, 1, accumulate);
  } else {
    capped_cross_entropy(gpu, losses, dlogits, logits, targets, N, V, Vp, dloss, softcap);
  }
  if (din) matmul_backward_input(gpu, din, dlogits, weight, nullptr, nullptr, N, C, Vp, GPT2_NO_ACTIVATION);
  if (dweight) matmul_backward_weight(gpu, dweight, dbias, dlogits, in, N, C, Vp, accumulate);
  if (dbias && !dweight) column_sums(gpu, dbias, dlogits, N, Vp, accumulate);
}

int64_t ops::classifier_scratch(const Context &gpu, int N, int C, int Vp, bool gradients, bool fp8) {
  // Even where a fused kernel exists, misaligned tensors need the scratch of the sequence of ops.
  const int64_t in_parts = std::max({gradients ? matmul_scratch(gpu, N, C, Vp, true) : 0,
                                     fp8 ? fp8_matmul_scratch(gpu, N, C, Vp, false) : 0,
                                     fp8 ? N * static_cast<int64_t>(sizeof(float)) : 0});
  if (!has_kernel(gpu, C, Vp)) return in_parts;
  return std::max(in_parts, gpu.kernels->classifier_scratch(gpu, N, C, Vp, gradients, fp8));
}

}  // namespace gpt2
