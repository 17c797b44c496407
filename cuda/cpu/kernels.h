// The kernels of the CPU library. They take plain arrays, sizes and a Task. Every op file defines its kernels in the
// namespace of the code path that it is compiled for (GPT2_PATH); kernels.cpp collects a path's kernels into a table.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../runtime/threads.h"
#include "kernels.generated.h"
#include "product.h"

namespace gpt2 {

struct Task {
  ThreadPool &pool;
  float *scratch;
  const Engine *engine;  // computes the matmuls

  Task with(float *other_scratch) const { return {pool, other_scratch, engine}; }
};

struct Kernels : OpKernels {
  // The sum of squares in double, for gpt2_global_norm (ranks/cpu-collectives.cpp).
  double (*square_sum)(Task, const float *values, int64_t count);
  const Engine *fp32, *bf16;
};

#ifdef GPT2_PATH
namespace GPT2_PATH {
// Declares each function with its type in the table, so that a definition of another type does not link.
template <class Pointer>
struct Function;
template <class F>
struct Function<F *> {
  using type = F;
};
#define GPT2_DECLARE(name) Function<decltype(Kernels::name)>::type name;
GPT2_OP_KERNELS(GPT2_DECLARE)
GPT2_DECLARE(square_sum)
#undef GPT2_DECLARE

extern const Engine fp32_engine, bf16_engine;
// sums [O] (=|+=) the sums over the rows of values [N,O].
void column_sums(Task, float *sums, const float *values, int N, int O, bool accumulate);
// out = relu(in)^2; NaN stays NaN.
void relu_squared_forward(Task, float *out, const float *in, int64_t count);
// out = the derivative of GELU at `in`, in one byte (gpt2.h, FP8).
void gelu_derivative(Task, int8_t *out, const float *in, int64_t count);
// out [N,O] = in * weight^T + bias + residual with FP8 operands, and its scratch, which fp8_matmul_scratch includes.
void fp8_product(Task, float *out, const uint8_t *in, const float *in_scale, const uint8_t *weight,
                 const float *factors, const float *bias, const float *residual, int N, int C, int O);
int64_t fp8_product_scratch(int threads, int N, int C, int O);
// cross_entropy of logits that gpt2_softcap_forward has limited to `softcap`, unless `softcap` is 0; dlogits is the
// gradient of the logits before the limit. If `is_rounded`, dlogits is in bf16: each row fills the first half of its
// row of floats, and scratch holds a row of floats for each thread.
void cross_entropy_capped(Task, float *losses, float *dlogits, const float *logits, const int32_t *targets, int N,
                          int V, int Vp, float dloss, float softcap, bool is_rounded);
// din [N,C] = dout * weight and dweight [O,C] (=|+=) dout^T * in, each unless it is NULL.
void matmul_gradients(Task, float *din, float *dweight, View dout, const float *in, const float *weight, int N, int C,
                      int O, bool accumulate);
// step[element] (=|+=) scale times the sum of values [N].
void add_to_step(float *step, int element, const float *values, int N, float scale, bool accumulate);
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
namespace neon {
extern const Kernels kernels;
}
namespace amx {
extern const Engine fp32_engine, bf16_engine;
}

}  // namespace gpt2
