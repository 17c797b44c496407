// A step of a Newton-Schulz iteration: by the tensor-core kernels if they support it, else by the matmuls for any size
// and dtype.
#include "newton-schulz.cuh"

#include <algorithm>

#include "common/tensor-cores.h"
#include "runtime/ops.generated.h"

namespace gpt2 {

void ops::newton_schulz(Context &gpu, void *out, const void *in, int M, int R, int K, float a, float b, float c) {
  if (gpu.dtype == GPT2_BF16 && R % 8 == 0 && K % 8 == 0 && on_16_bytes(out, in)) {
    gpu.kernels->newton_schulz(gpu, static_cast<bf16 *>(out), static_cast<const bf16 *>(in), M, R, K, a, b, c,
                               static_cast<bf16 *>(gpu.workspace));
  } else {
    with_element_type(gpu, [&](auto element) {
      using T = decltype(element);
      newton_schulz_by_products(static_cast<T *>(out), static_cast<const T *>(in), M, R, K, a, b, c,
                                static_cast<T *>(gpu.workspace),
                                [&](Epilogue epilogue, const Product &product, const Outputs<T, T> &outputs) {
                                  any_product(gpu, epilogue, product, outputs);
                                });
    });
  }
}

int64_t ops::newton_schulz_scratch(const Context &gpu, int M, int R, int) {
  return with_element_type(gpu, [&](auto element) {
    const int64_t squares = 2 * static_cast<int64_t>(M) * R * R * static_cast<int64_t>(sizeof(element));
    return std::max(squares, normalize_matrices_scratch(M));
  });
}

}  // namespace gpt2
