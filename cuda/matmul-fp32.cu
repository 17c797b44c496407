// Matmuls of any size and alignment, with sums in fp32: fp32 exactly, fp32 as tf32 on tensor cores, and bf16 whose rows
// are not a multiple of 16 bytes, which the tensor-core kernels do not support.
//
// A block of 256 threads computes 128 x 128 results in steps of 16 in k. The next step's operands are read into
// registers while the current step is computed from shared memory, where the operands are [k][m] and [k][n]. In exact
// fp32 each thread has 8 x 8 results; in tf32 each of 8 warps has 64 x 32 results.
#include "common/mma.cuh"
#include "matmul.cuh"

namespace gpt2 {

namespace {

constexpr int tile = 128;
constexpr int step_k = 16;
constexpr int threads = 256;
// Rows of 136 floats: a row (one k) begins 8 banks after the previous row, so tf32 fragments have no bank conflicts.
constexpr int line = tile + 8;

// Copies a thread's share of an operand's tile: 8 elements, in two groups of 4 adjacent in memory.
template <class T, bool K_MAJOR>
struct Loader {
  const T *source;
  int64_t ld;
  int mn0, mn_end, k_end;
  bool vectors;
  float values[2][4];

  __device__ int mn_of(int group) const {
    return K_MAJOR ? threadIdx.x / 4 + group * 64 : static_cast<int>(threadIdx.x % 32) * 4;
  }
  __device__ int k_of(int group) const {
    return K_MAJOR ? static_cast<int>(threadIdx.x % 4) * 4 : threadIdx.x / 32 + group * 8;
  }

  __device__ void read(int k0) {
#pragma unroll
    for (int group = 0; group < 2; group++) {
      const int mn = mn0 + mn_of(group), k = k0 + k_of(group);
      const int row = K_MAJOR ? mn : k, column = K_MAJOR ? k : mn;
      const int row_end = K_MAJOR ? mn_end : k_end, column_end = K_MAJOR ? k_end : mn_end;
      const T *from = source + row * ld + column;
      if (vectors && row < row_end && column + 4 <= column_end) {
        load(values[group], from);
      } else {
#pragma unroll
        for (int i = 0; i < 4; i++) values[group][i] = row < row_end && column + i < column_end ? to_float(from[i]) : 0;
      }
    }
  }

  __device__ void write(float (&shared)[step_k][line]) const {
#pragma unroll
    for (int group = 0; group < 2; group++) {
#pragma unroll
      for (int i = 0; i < 4; i++) {
        if (K_MAJOR) {
          shared[k_of(group) + i][mn_of(group)] = values[group][i];
        } else {
          shared[k_of(group)][mn_of(group) + i] = values[group][i];
        }
      }
    }
  }
};

struct Arguments {
  int M, N, K;
  int64_t lda, ldb;
  bool vectors;
};

template <Epilogue E, class T, class O>
__device__ __forceinline__ void finish_one(const Outputs<T, O> &outputs, const Arguments &arguments, int m, int n,
                                           float value) {
  if (m >= arguments.M || n >= arguments.N) return;
  float result[1] = {value}, bias[1] = {};
  if constexpr (adds_bias<E>) {
    if (outputs.bias) bias[0] = to_float(outputs.bias[n]);
  }
  const int64_t at = static_cast<int64_t>(m) * arguments.N + n;
  Extra<E, T, O, 1> extra;
  extra.read(outputs, at);
  finish<E>(outputs, result, bias, extra, at);
}

template <bool TF32, bool A_K_MAJOR, bool B_K_MAJOR, Epilogue E, class T, class O>
__global__ void __launch_bounds__(threads)
    product_kernel(const T *a, const T *b, Arguments arguments, Outputs<T, O> outputs) {
  __shared__ float shared_a[2][step_k][line], shared_b[2][step_k][line];
  const int m0 = blockIdx.y * tile, n0 = blockIdx.x * tile;
  Loader<T, A_K_MAJOR> loader_a{a, arguments.lda, m0, arguments.M, arguments.K, arguments.vectors, {}};
  Loader<T, B_K_MAJOR> loader_b{b, arguments.ldb, n0, arguments.N, arguments.K, arguments.vectors, {}};

  // 64 results per thread. Exact fp32: rows thread_m and columns thread_n, + 0..3 and + 64..67. tf32: 16 x 8 fragments.
  float result[16][4] = {};
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int thread_m = threadIdx.x / 16 * 4, thread_n = threadIdx.x % 16 * 4;
  const int warp_m = warp / 4 * 64, warp_n = warp % 4 * 32;

  loader_a.read(0);
  loader_b.read(0);
  for (int k0 = 0, buffer = 0; k0 < arguments.K; k0 += step_k, buffer ^= 1) {
    loader_a.write(shared_a[buffer]);
    loader_b.write(shared_b[buffer]);
    __syncthreads();
    if (k0 + step_k < arguments.K) {
      loader_a.read(k0 + step_k);
      loader_b.read(k0 + step_k);
    }
    if constexpr (TF32) {
#pragma unroll
      for (int k = 0; k < step_k; k += 8) {
        uint32_t fa[4][4], fb[4][2];
#pragma unroll
        for (int i = 0; i < 4; i++) {
#pragma unroll
          for (int part = 0; part < 4; part++) {
            fa[i][part] =
                to_tf32(shared_a[buffer][k + lane % 4 + part / 2 * 4][warp_m + i * 16 + lane / 4 + part % 2 * 8]);
          }
        }
#pragma unroll
        for (int j = 0; j < 4; j++) {
#pragma unroll
          for (int part = 0; part < 2; part++) {
            fb[j][part] = to_tf32(shared_b[buffer][k + lane % 4 + part * 4][warp_n + j * 8 + lane / 4]);
          }
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
#pragma unroll
          for (int j = 0; j < 4; j++) multiply_tf32(result[i * 4 + j], fa[i], fb[j][0], fb[j][1]);
        }
      }
    } else {
#pragma unroll
      for (int k = 0; k < step_k; k++) {
        float x[8], y[8];
#pragma unroll
        for (int half = 0; half < 2; half++) {
          const float4 va = *reinterpret_cast<const float4 *>(&shared_a[buffer][k][thread_m + half * 64]);
          const float4 vb = *reinterpret_cast<const float4 *>(&shared_b[buffer][k][thread_n + half * 64]);
          x[half * 4] = va.x, x[half * 4 + 1] = va.y, x[half * 4 + 2] = va.z, x[half * 4 + 3] = va.w;
          y[half * 4] = vb.x, y[half * 4 + 1] = vb.y, y[half * 4 + 2] = vb.z, y[half * 4 + 3] = vb.w;
        }
#pragma unroll
        for (int i = 0; i < 8; i++) {
#pragma unroll
          for (int j = 0; j < 8; j++) result[i * 2 + j / 4][j % 4] += x[i] * y[j];
        }
      }
    }
  }

  if constexpr (TF32) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
#pragma unroll
      for (int j = 0; j < 4; j++) {
#pragma unroll
        for (int part = 0; part < 4; part++) {
          finish_one<E>(outputs, arguments, m0 + warp_m + i * 16 + lane / 4 + part / 2 * 8,
                        n0 + warp_n + j * 8 + lane % 4 * 2 + part % 2, result[i * 4 + j][part]);
        }
      }
    }
  } else {
#pragma unroll
    for (int i = 0; i < 8; i++) {
#pragma unroll
      for (int j = 0; j < 8; j++) {
        finish_one<E>(outputs, arguments, m0 + thread_m + i % 4 + i / 4 * 64, n0 + thread_n + j % 4 + j / 4 * 64,
                      result[i * 2 + j / 4][j % 4]);
      }
    }
  }
}

template <bool A_K_MAJOR, bool B_K_MAJOR, Epilogue E, class T, class O>
void launch(const CudaContext &context, const Product &product, const Outputs<T, O> &outputs) {
  auto *a = static_cast<const T *>(product.a), *b = static_cast<const T *>(product.b);
  const bool vectors = sizeof(T) == 4 && product.lda % 4 == 0 && product.ldb % 4 == 0 && on_16_bytes(a, b);
  const Arguments arguments{product.M, product.N, product.K, product.lda, product.ldb, vectors};
  const dim3 grid(static_cast<unsigned>(ceil_divide(product.N, tile)),
                  static_cast<unsigned>(ceil_divide(product.M, tile)));
  if constexpr (sizeof(T) == 4) {
    if (context.dtype == GPT2_TF32) {
      product_kernel<true, A_K_MAJOR, B_K_MAJOR, E><<<grid, threads, 0, context.stream>>>(a, b, arguments, outputs);
      return;
    }
  }
  product_kernel<false, A_K_MAJOR, B_K_MAJOR, E><<<grid, threads, 0, context.stream>>>(a, b, arguments, outputs);
}

}  // namespace

template <class T, class O>
void any_product(const CudaContext &context, Epilogue epilogue, const Product &product, const Outputs<T, O> &outputs) {
  if (epilogue == Epilogue::gradient) return launch<false, false, Epilogue::gradient>(context, product, outputs);
  if constexpr (sizeof(T) == sizeof(O)) {
    if (product.b_is_k_major) {
      with_forward_epilogue(epilogue, [&](auto E) { launch<true, true, E>(context, product, outputs); });
    } else {
      with_backward_epilogue(epilogue, [&](auto E) { launch<true, false, E>(context, product, outputs); });
    }
  }
}

template void any_product(const CudaContext &, Epilogue, const Product &, const Outputs<float, float> &);
template void any_product(const CudaContext &, Epilogue, const Product &, const Outputs<bf16, bf16> &);
template void any_product(const CudaContext &, Epilogue, const Product &, const Outputs<bf16, float> &);

}  // namespace gpt2
