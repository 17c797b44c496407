// The forward product for so few rows (a token of each of a few sequences) that reading the weight is all the work: a
// warp takes one line of the weight, reads it once, and multiplies it with every row. Its part of the weight is asked
// for before the kernel waits for the one before it, so that memory keeps busy from one op of a token to the next.
#include "matmul.cuh"

namespace gpt2 {

namespace {

constexpr int threads = 256;
constexpr int warps = threads / 32;

template <Epilogue E, int ROWS, class T>
__global__ void __launch_bounds__(threads)
    few_rows_kernel(Outputs<T, T> outputs, const T *in, const T *weight, int M, int N, int K) {
  constexpr int V = vector_size<T>;
  const int lane = threadIdx.x % 32;
  const int column = blockIdx.x * warps + threadIdx.x / 32;
  const T *line = weight + static_cast<int64_t>(column) * K;
  release_next_kernel();
  if (column < N) {
    constexpr int per_line = 128 / sizeof(T);
    for (int k = lane * per_line; k < K; k += 32 * per_line) prefetch_to_l2(line + k);
  }
  wait_for_previous_kernel();
  if (column >= N) return;
  float sums[ROWS] = {};
#pragma unroll 4
  for (int k = lane * V; k < K; k += 32 * V) {
    float w[V];
    load(w, line + k);
#pragma unroll
    for (int m = 0; m < ROWS; m++) {
      if (m >= M) break;
      float x[V];
      load(x, in + static_cast<int64_t>(m) * K + k);
#pragma unroll
      for (int j = 0; j < V; j++) sums[m] += x[j] * w[j];
    }
  }
  // Lane m finishes row m.
  float own[1] = {0};
#pragma unroll
  for (int m = 0; m < ROWS; m++) {
    const float sum = warp_sum(sums[m]);
    if (lane == m) own[0] = sum;
  }
  if (lane >= M) return;
  const int64_t at = static_cast<int64_t>(lane) * N + column;
  const float bias[1] = {outputs.bias ? to_float(outputs.bias[column]) : 0.0f};
  Extra<E, T, T, 1> extra;
  extra.read(outputs, at);
  finish<E>(outputs, own, bias, extra, at);
}

template <Epilogue E, class T>
void launch(const CudaContext &context, const Product &product, const Outputs<T, T> &outputs) {
  const auto start = [&](auto *kernel) {
    launch_overlapping(context, kernel, ceil_divide(product.N, warps), threads, 0, outputs,
                       static_cast<const T *>(product.a), static_cast<const T *>(product.b), product.M, product.N,
                       product.K);
  };
  if (product.M == 1) return start(few_rows_kernel<E, 1, T>);
  if (product.M <= 4) return start(few_rows_kernel<E, 4, T>);
  start(few_rows_kernel<E, most_few_rows, T>);
}

}  // namespace

template <class T>
void few_rows_product(const CudaContext &context, Epilogue epilogue, const Product &product,
                      const Outputs<T, T> &outputs) {
  if (epilogue == Epilogue::bias) launch<Epilogue::bias>(context, product, outputs);
  if (epilogue == Epilogue::gelu) launch<Epilogue::gelu>(context, product, outputs);
  if (epilogue == Epilogue::residual) launch<Epilogue::residual>(context, product, outputs);
}

template void few_rows_product(const CudaContext &, Epilogue, const Product &, const Outputs<float, float> &);
template void few_rows_product(const CudaContext &, Epilogue, const Product &, const Outputs<bf16, bf16> &);

}  // namespace gpt2
