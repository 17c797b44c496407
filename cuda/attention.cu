// Causal attention: chooses the tensor-core kernels if they support the dtype and the head size, else the kernels for
// any head size (attention-any.cuh).
#include "attention-any.cuh"
#include "common/tensor-cores.h"
#include "runtime/checks.h"
#include "runtime/ops.generated.h"

namespace gpt2 {

namespace {

using namespace attention_any;

// 8 threads share a row of HS elements. Calls `body` with the number of elements per thread, a constant.
template <class Body>
void with_columns(int HS, Body body) {
  if (HS <= 64) return body(std::integral_constant<int, 8>{});
  if (HS <= 128) return body(std::integral_constant<int, 16>{});
  body(std::integral_constant<int, most_head_size / 8>{});
}

struct BackwardScratch {
  float *statistics;
  int32_t *last;  // [B,T], used only with a mask
  int64_t bytes;

  BackwardScratch(void *memory, int B, int T, int NH) {
    Scratch scratch(memory);
    statistics = scratch.take<float>(static_cast<int64_t>(B) * NH * ceil_divide(T, 128) * 128 * 2);
    last = scratch.take<int32_t>(static_cast<int64_t>(B) * T);
    bytes = scratch.bytes();
  }
};

// last[b,u] = the last query of sequence b whose first key is at most u, by binary search from query u on.
__global__ void __launch_bounds__(threads)
    last_queries_kernel(int32_t *last, const int32_t *first, int64_t count, int T) {
  wait_for_previous_kernel();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (i >= count) return;
  const int key = static_cast<int>(i % T);
  const int32_t *line = first + (i - key);
  int low = key, high = T - 1;
  while (low < high) {
    const int middle = high - (high - low) / 2;
    if (line[middle] <= key) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  last[i] = low;
}

// Throws if the head size is over 256, or if the tiles (`shared` bytes) and two 32 x 32 score matrices do not fit in a
// block's shared memory.
void check_head_size(const CudaContext &gpu, int HS, int shared) {
  if (HS <= most_head_size && shared + 2 * tile * (tile + 1) * 4 <= gpu.shared_limit) return;
  throw Failure{GPT2_UNSUPPORTED, "head size " + std::to_string(HS) + " is more than the kernels support on this GPU"};
}

}  // namespace

void ops::attention_forward(Context &gpu, void *out, float *lse, const void *qkv, const int32_t *first, int B, int T,
                            int C, int NH) {
  const AttentionSizes sizes{B, T, C, NH, C / NH, {first, nullptr}};
  if (gpu.dtype == GPT2_BF16 && gpu.kernels->takes_head_size(gpu, sizes.HS) && on_16_bytes(out, qkv)) {
    gpu.kernels->attention_forward(gpu, static_cast<bf16 *>(out), lse, static_cast<const bf16 *>(qkv), sizes);
    return;
  }
  const int shared = 3 * tile * (sizes.HS + 1) * 4;  // tiles of q, k and v, their rows padded by a float
  check_head_size(gpu, sizes.HS, shared);
  const auto grid = static_cast<unsigned>(ceil_divide(T, tile) * B * NH);
  const float scale = 1.0f / sqrtf(static_cast<float>(sizes.HS));
  with_element_type(gpu, [&](auto element) {
    using E = decltype(element);
    with_columns(sizes.HS, [&](auto columns) {
      auto *kernel = forward_any_kernel<E, columns>;
      allow_shared(kernel, shared);
      kernel<<<grid, threads, shared, gpu.stream>>>(static_cast<E *>(out), lse, static_cast<const E *>(qkv), sizes,
                                                    scale);
    });
  });
}

int64_t ops::attention_scratch(const Context &, int B, int T, int, int NH) {
  return BackwardScratch(nullptr, B, T, NH).bytes;
}

void ops::attention_backward(Context &gpu, void *dqkv, const void *dout, const void *out, const void *qkv,
                             const float *lse, const int32_t *first, int B, int T, int C, int NH) {
  const int64_t lines = static_cast<int64_t>(B) * NH * T;
  const BackwardScratch scratch(gpu.workspace, B, T, NH);
  float *D = scratch.statistics;
  const AttentionSizes sizes{B, T, C, NH, C / NH, {first, first ? scratch.last : nullptr}};
  if (first) {
    const int64_t keys = static_cast<int64_t>(B) * T;
    launch_overlapping(gpu, last_queries_kernel, ceil_divide(keys, threads), threads, 0, scratch.last, first, keys, T);
  }
  if (gpu.dtype == GPT2_BF16 && gpu.kernels->takes_head_size(gpu, sizes.HS) && on_16_bytes(dqkv, dout, out, qkv)) {
    gpu.kernels->attention_backward(gpu, static_cast<bf16 *>(dqkv), D, static_cast<const bf16 *>(dout),
                                    static_cast<const bf16 *>(out), static_cast<const bf16 *>(qkv), lse, sizes);
    return;
  }
  const int shared = 4 * tile * (sizes.HS + 1) * 4;  // tiles of q, k, v and dout
  check_head_size(gpu, sizes.HS, shared);
  const auto grid = static_cast<unsigned>(ceil_divide(T, tile) * B * NH);
  const float scale = 1.0f / sqrtf(static_cast<float>(sizes.HS));
  with_element_type(gpu, [&](auto element) {
    using E = decltype(element);
    auto *dx = static_cast<E *>(dqkv);
    auto *dy = static_cast<const E *>(dout), *x = static_cast<const E *>(qkv);
    products_kernel<<<static_cast<unsigned>(ceil_divide(lines, threads / 32)), threads, 0, gpu.stream>>>(
        D, dy, static_cast<const E *>(out), sizes);
    with_columns(sizes.HS, [&](auto columns) {
      auto *queries = backward_any_kernel<false, E, columns>, *keys = backward_any_kernel<true, E, columns>;
      allow_shared(queries, shared);
      allow_shared(keys, shared);
      queries<<<grid, threads, shared, gpu.stream>>>(dx, D, dy, x, lse, sizes, scale);
      keys<<<grid, threads, shared, gpu.stream>>>(dx, D, dy, x, lse, sizes, scale);
    });
  });
}

}  // namespace gpt2
