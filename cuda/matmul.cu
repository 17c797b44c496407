// The linear layer: forward, backward to input and weight, each as one matmul (matmul.cuh). Chooses the kernels.
#include "common/partial-sums.cuh"
#include "common/tensor-cores.h"
#include "runtime/ops.generated.h"

namespace gpt2 {

namespace {

constexpr int threads = 256;
constexpr int warps = threads / 32;
constexpr int most_parts = 64;

// partial [gridDim.y,O]: column sums of dout [N,O]. A block takes 32 columns and every gridDim.y-th group of 8 rows.
template <class T>
__global__ void __launch_bounds__(threads) column_sums_kernel(float *partial, const T *dout, int N, int O) {
  __shared__ float sums[warps][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int column = blockIdx.x * 32 + lane;
  float sum = 0;
  if (column < O) {
    for (int64_t row = blockIdx.y * warps + warp; row < N; row += gridDim.y * warps)
      sum += to_float(dout[row * O + column]);
  }
  sums[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || column >= O) return;
  sum = 0;
  for (int i = 0; i < warps; i++) sum += sums[i][lane];
  partial[static_cast<int64_t>(blockIdx.y) * O + column] = sum;
}

// Whether the tensor-core kernels support the case: bf16, and rows that are a multiple of 16 bytes.
bool takes_tensor_cores(const CudaContext &context, int C, int O) {
  return context.dtype == GPT2_BF16 && C % 8 == 0 && O % 8 == 0;
}

int parts_of(int N) {
  const int64_t groups = ceil_divide(N, warps * 4);
  return static_cast<int>(groups < most_parts ? groups : most_parts);
}

template <class T>
Outputs<T, T> outputs_of(void *out, void *pre, const void *bias, const void *residual) {
  return {static_cast<T *>(out), static_cast<T *>(pre), static_cast<const T *>(bias), static_cast<const T *>(residual),
          false};
}

// The scratch of gpt2_norm_matmul_forward if no fused kernel supports the case: layernorm's results.
struct Normed {
  Scratch scratch;
  void *rows;
  float *mean, *rstd;
  Normed(const CudaContext &context, void *memory, int N, int C) : scratch(memory) {
    rows = scratch.take<char>(static_cast<int64_t>(N) * C * (context.dtype == GPT2_BF16 ? 2 : 4));
    mean = scratch.take<float>(N);
    rstd = scratch.take<float>(N);
  }
};

}  // namespace

void column_sums(const CudaContext &context, float *dbias, const void *dout, int N, int O, bool accumulate) {
  const int parts = parts_of(N);
  float *partial = Scratch(context.workspace).take<float>(static_cast<int64_t>(parts) * O);
  const dim3 grid(static_cast<unsigned>(ceil_divide(O, 32)), static_cast<unsigned>(parts));
  with_element_type(context, [&](auto element) {
    auto *values = static_cast<const decltype(element) *>(dout);
    column_sums_kernel<<<grid, threads, 0, context.stream>>>(partial, values, N, O);
  });
  launch_add_partials(context, dbias, nullptr, partial, parts, O, accumulate);
}

void ops::matmul_forward(Context &gpu, void *out, void *pre, const void *in, const void *weight, const void *bias,
                         const void *residual, int N, int C, int O, int activation) {
  const Epilogue epilogue = residual ? Epilogue::residual : forward_epilogue(activation);
  const Product product{in, weight, true, true, N, O, C, C, C};
  const bool done = with_element_type(gpu, [&](auto element) {
    return few_rows_product(gpu, epilogue, product, outputs_of<decltype(element)>(out, pre, bias, residual));
  });
  if (done) return;
  if (takes_tensor_cores(gpu, C, O) && on_16_bytes(out, pre, in, weight, bias, residual)) {
    gpu.kernels->matmul_forward(gpu, epilogue, product, outputs_of<bf16>(out, pre, bias, residual));
  } else {
    with_element_type(gpu, [&](auto element) {
      any_product(gpu, epilogue, product, outputs_of<decltype(element)>(out, pre, bias, residual));
    });
  }
}

void ops::norm_matmul_forward(Context &gpu, void *out, void *pre, const void *in, const void *norm_weight,
                              const void *norm_bias, const void *weight, const void *bias, int N, int C, int O,
                              int activation) {
  const Product product{in, weight, true, true, N, O, C, C, C};
  const bool done = with_element_type(gpu, [&](auto element) {
    using T = decltype(element);
    return few_rows_product(gpu, forward_epilogue(activation), product, outputs_of<T>(out, pre, bias, nullptr),
                            static_cast<const T *>(norm_weight), static_cast<const T *>(norm_bias));
  });
  if (done) return;
  const Normed normed(gpu, gpu.workspace, N, C);
  norm_forward(gpu, normed.rows, nullptr, nullptr, nullptr, normed.mean, normed.rstd, in, norm_weight, norm_bias, N, C,
               layernorm_eps);
  matmul_forward(gpu, out, pre, normed.rows, weight, bias, nullptr, N, C, O, activation);
}

int64_t ops::norm_matmul_scratch(const Context &gpu, int N, int C, int) {
  return Normed(gpu, nullptr, N, C).scratch.bytes();
}

void ops::matmul_backward_input(Context &gpu, void *din, const void *dout, const void *weight, const void *pre,
                                const void *activated, int N, int C, int O, int activation) {
  const Epilogue epilogue = backward_epilogue(activation);
  void *saved = const_cast<void *>(activated ? activated : pre);
  const Product product{dout, weight, true, false, N, C, O, O, C};
  if (takes_tensor_cores(gpu, C, O) && on_16_bytes(din, dout, weight, saved)) {
    gpu.kernels->matmul_backward_input(gpu, epilogue, product, outputs_of<bf16>(din, saved, nullptr, nullptr));
  } else {
    with_element_type(gpu, [&](auto element) {
      any_product(gpu, epilogue, product, outputs_of<decltype(element)>(din, saved, nullptr, nullptr));
    });
  }
}

void ops::matmul_backward_weight(Context &gpu, void *dweight, float *dbias, const void *dout, const void *in, int N,
                                 int C, int O, bool accumulate) {
  const Product product{dout, in, false, false, O, C, N, O, C};
  if (takes_tensor_cores(gpu, C, O) && on_16_bytes(dweight, dout, in)) {
    gpu.kernels->matmul_backward_weight(gpu, product, dweight, dbias, accumulate, gpu.workspace);
    return;
  }
  if (dbias) column_sums(gpu, dbias, dout, N, O, accumulate);
  with_types(gpu, !gpu.accumulates, [&](auto element, auto gradient) {
    using G = decltype(gradient);
    any_product(gpu, Epilogue::gradient, product,
                Outputs<decltype(element), G>{static_cast<G *>(dweight), nullptr, nullptr, nullptr, accumulate});
  });
}

int64_t ops::matmul_scratch(const Context &gpu, int N, int C, int O, bool has_weight_gradient) {
  if (!has_weight_gradient) return 0;
  Scratch sums;
  sums.take<float>(static_cast<int64_t>(parts_of(N)) * O);
  if (!takes_tensor_cores(gpu, C, O)) return sums.bytes();
  const int64_t bytes = gpu.kernels->matmul_backward_weight_scratch(gpu, N, C, O);
  return bytes > sums.bytes() ? bytes : sums.bytes();
}

}  // namespace gpt2
