// The last linear layer with its loss. The kernels for this GPU's generation compute it if they support the case (bf16;
// dbias only with dweight); otherwise a sequence of other ops does. With FP8 only the matmul of the logits differs.
#include <algorithm>

#include "common/fp8.cuh"
#include "common/tensor-cores.h"
#include "cross-entropy.cuh"
#include "runtime/ops.generated.h"

namespace gpt2 {

namespace {

bool has_kernel(const CudaContext &context, int C, int Vp) {
  return context.kernels->classifier && context.dtype == GPT2_BF16 && C % 8 == 0 && Vp % 8 == 0;
}

// The classifier as a sequence of other ops, for other GPUs, dtypes and sizes, and for dbias without dweight. The
// matmul of the logits has run before; `status` is its status.
int classifier_in_parts(gpt2_context &context, const char *function, int status, float *losses, void *din,
                        void *dweight, float *dbias, void *logits, const void *in, const void *weight,
                        const int32_t *targets, int N, int C, int V, int Vp, float dloss, float softcap,
                        bool accumulate) {
  CudaContext &gpu = cuda(context);
  void *dlogits = din || dweight || dbias ? logits : nullptr;
  if (status) return status;
  capped_cross_entropy(gpu, losses, dlogits, logits, targets, N, V, Vp, dloss, softcap);
  if (din) {
    status = ops::matmul_backward_input(context, din, dlogits, weight, nullptr, nullptr, N, C, Vp, GPT2_NO_ACTIVATION);
  }
  if (!status && dweight) {
    status = ops::matmul_backward_weight(context, dweight, dbias, dlogits, in, N, C, Vp, accumulate);
  }
  if (!status && dbias && !dweight) column_sums(gpu, dbias, dlogits, N, Vp, accumulate);
  return status ? status : GPT2_LAUNCHED(context, function);
}

int64_t in_parts_scratch(const gpt2_context &context, int N, int C, int Vp, bool has_gradient) {
  return has_gradient ? ops::matmul_scratch(context, N, C, Vp, true) : 0;
}

}  // namespace

int ops::classifier(gpt2_context &context, float *losses, void *din, void *dweight, float *dbias, void *logits,
                    const void *in, const void *weight, const void *bias, const int32_t *targets, int N, int C, int V,
                    int Vp, float dloss, float softcap, bool accumulate) {
  CudaContext &gpu = cuda(context);
  if ((dbias && !dweight) || !has_kernel(gpu, C, Vp) || !on_16_bytes(din, dweight, logits, in, weight, bias)) {
    const int status =
        ops::matmul_forward(context, logits, nullptr, in, weight, bias, nullptr, N, C, Vp, GPT2_NO_ACTIVATION);
    return classifier_in_parts(context, "gpt2_classifier", status, losses, din, dweight, dbias, logits, in, weight,
                               targets, N, C, V, Vp, dloss, softcap, accumulate);
  }
  gpu.kernels->classifier(gpu, losses, static_cast<bf16 *>(din), dweight, dbias, static_cast<bf16 *>(logits),
                          static_cast<const bf16 *>(in), static_cast<const bf16 *>(weight),
                          static_cast<const bf16 *>(bias), targets, N, C, V, Vp, dloss, softcap, accumulate,
                          gpu.workspace);
  return GPT2_LAUNCHED(context, "gpt2_classifier");
}

int64_t ops::classifier_scratch(const gpt2_context &context, int N, int C, int Vp, bool has_gradient) {
  const CudaContext &gpu = cuda(context);
  // Misaligned memory always takes the sequence of ops.
  const int64_t in_parts = in_parts_scratch(context, N, C, Vp, has_gradient);
  if (!has_kernel(gpu, C, Vp)) return in_parts;
  return std::max(in_parts, gpu.kernels->classifier_scratch(gpu, N, C, Vp, has_gradient));
}

int ops::fp8_classifier(gpt2_context &context, float *losses, void *din, void *dweight, float *dbias, void *logits,
                        const void *in, const uint8_t *in_values, const float *in_scale, const void *weight,
                        const uint8_t *weight_values, const float *factors, const void *bias, const int32_t *targets,
                        int N, int C, int V, int Vp, float dloss, float softcap, bool accumulate) {
  if (const int status = require_fp8(context, "gpt2_fp8_classifier")) return status;
  CudaContext &gpu = cuda(context);
  if ((dbias && !dweight) || !gpu.kernels->fp8_classifier ||
      !on_16_bytes(din, dweight, logits, in, in_values, weight, weight_values, bias)) {
    const int status =
        ops::fp8_matmul(context, logits, in_values, in_scale, weight_values, factors, bias, nullptr, N, C, Vp);
    return classifier_in_parts(context, "gpt2_fp8_classifier", status, losses, din, dweight, dbias, logits, in, weight,
                               targets, N, C, V, Vp, dloss, softcap, accumulate);
  }
  gpu.kernels->fp8_classifier(gpu, losses, static_cast<bf16 *>(din), dweight, dbias, static_cast<bf16 *>(logits),
                              static_cast<const bf16 *>(in), in_values, in_scale, static_cast<const bf16 *>(weight),
                              weight_values, factors, static_cast<const bf16 *>(bias), targets, N, C, V, Vp, dloss,
                              softcap, accumulate, gpu.workspace);
  return GPT2_LAUNCHED(context, "gpt2_fp8_classifier");
}

int64_t ops::fp8_classifier_scratch(const gpt2_context &context, int N, int C, int Vp, bool has_gradient) {
  const CudaContext &gpu = cuda(context);
  const int64_t in_parts =
      std::max(fp8_matmul_scratch(context, N, C, Vp), in_parts_scratch(context, N, C, Vp, has_gradient));
  if (!gpu.kernels->fp8_classifier) return in_parts;
  return std::max(in_parts, gpu.kernels->classifier_scratch(gpu, N, C, Vp, has_gradient));
}

}  // namespace gpt2
