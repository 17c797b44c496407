// The ops as api.cpp calls them once arguments are checked: plain arrays, sizes, and a Task that says how many threads
// and which scratch. Every op file defines its functions in the namespace of the code path it is compiled for
// (GPT2_PATH); kernels.cpp collects them into a table, one per path.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpt2 {

struct Task {
  int threads;
  float *scratch;
};

struct Kernels {
  void (*embedding_forward)(Task, float *out, const int32_t *tokens, const float *wte, const float *wpe, int B, int T,
                            int C);
  void (*embedding_backward)(Task, float *dwte, float *dwpe, const float *dout, const int32_t *tokens, int B, int T,
                             int C, bool accumulate);
  void (*layernorm_forward)(Task, float *out, float *mean, float *rstd, const float *in, const float *weight,
                            const float *bias, int N, int C);
  void (*layernorm_backward)(Task, float *din, float *dweight, float *dbias, const float *dout, const float *dresidual,
                             const float *in, const float *weight, const float *mean, const float *rstd, int N, int C,
                             bool accumulate);
  void (*matmul_forward)(Task, float *out, const float *in, const float *weight, const float *bias, int N, int C,
                         int O);
  void (*matmul_backward_input)(Task, float *din, const float *dout, const float *weight, int N, int C, int O);
  void (*matmul_backward_weight)(Task, float *dweight, float *dbias, const float *dout, const float *in, int N, int C,
                                 int O, bool accumulate);
  // Floats of scratch for any direction.
  int64_t (*matmul_scratch)(int threads, int N, int C, int O);
  void (*attention_forward)(Task, float *out, float *lse, const float *qkv, int B, int T, int C, int NH);
  void (*attention_backward)(Task, float *dqkv, const float *dout, const float *out, const float *qkv,
                             const float *lse, int B, int T, int C, int NH);
  int64_t (*attention_scratch)(int threads, int T, int HS);
  void (*gelu_forward)(Task, float *out, const float *in, int64_t count);
  void (*gelu_backward)(Task, float *din, const float *dout, const float *in, int64_t count);
  void (*residual_forward)(Task, float *out, const float *a, const float *b, int64_t count);
  void (*cross_entropy)(Task, float *losses, float *dlogits, const float *logits, const int32_t *targets, int N, int V,
                        int Vp, float dloss);
  // The sum of squares in double.
  double (*square_sum)(Task, const float *values, int64_t count);
  int64_t (*square_sum_scratch)(int64_t count);
  void (*adamw)(Task, float *weight, float *m, float *v, const float *gradient, int64_t count, float learning_rate,
                float beta1_correction, float beta2_correction, float clip, float beta1, float beta2, float eps,
                float weight_decay);
  void (*embedding_at_forward)(Task, float *out, const int32_t *tokens, const int32_t *positions, const float *wte,
                               const float *wpe, int B, int T, int S, int C, int V);
  void (*attention_cached_forward)(Task, float *out, float *keys, float *values, const float *qkv,
                                   const int32_t *positions, int B, int T, int S, int C, int NH);
  int64_t (*attention_cached_scratch)(int threads, int S);
  void (*sample)(Task, int32_t *tokens, int32_t *positions, const float *logits, const int32_t *seeds, int B, int S,
                 int V, int Vp, float temperature, int top_k, float top_p);
  int64_t (*sample_scratch)(int B, int V);
};

#define GPT2_KERNEL_NAMES(X)                                                                                         \
  X(embedding_forward) X(embedding_backward) X(layernorm_forward) X(layernorm_backward) X(matmul_forward)            \
  X(matmul_backward_input) X(matmul_backward_weight) X(matmul_scratch) X(attention_forward) X(attention_backward)    \
  X(attention_scratch) X(gelu_forward) X(gelu_backward) X(residual_forward) X(cross_entropy) X(square_sum)           \
  X(square_sum_scratch) X(adamw) X(embedding_at_forward) X(attention_cached_forward) X(attention_cached_scratch)     \
  X(sample) X(sample_scratch)

#ifdef GPT2_PATH
namespace GPT2_PATH {
// Declares each function with the type it has in the table, so that a definition that differs does not link.
template <class Pointer>
struct Function;
template <class F>
struct Function<F *> {
  using type = F;
};
#define GPT2_DECLARE(name) Function<decltype(Kernels::name)>::type name;
GPT2_KERNEL_NAMES(GPT2_DECLARE)
#undef GPT2_DECLARE
}  // namespace GPT2_PATH
#endif

namespace portable {
extern const Kernels kernels;
}
namespace avx2 {
extern const Kernels kernels;
}
namespace avx512 {
extern const Kernels kernels;
}

}  // namespace gpt2
