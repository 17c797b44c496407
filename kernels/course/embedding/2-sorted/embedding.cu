// Token and position embedding: forward in accesses of 16 bytes; backward sorts the positions by token, so that a token's rows can be
// added by themselves, in the order of positions. ELEMENT is float or __nv_bfloat16, GRADIENT the type of the tables' gradients. Sums are
// fp32.
#include <cstdint>
#include <cuda_bf16.h>

using element = ELEMENT;
using gradient = GRADIENT;

constexpr int width = 16 / sizeof(element);  // elements of 16 bytes

// WIDTH neighbouring elements, which one instruction reads or writes.
template <int WIDTH>
struct alignas(WIDTH * sizeof(element)) Pack {
  element values[WIDTH];
};

__device__ bool is_aligned(const void *pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

// One warp: y = word + position, or word alone without a position; NaN if the token does not exist.
template <int WIDTH>
__device__ void forward_row(element *y, const element *word, const element *position, bool exists, int C) {
  for (int p = threadIdx.x % 32; p < C / WIDTH; p += 32) {
    Pack<WIDTH> a = reinterpret_cast<const Pack<WIDTH> *>(word)[p];
    const Pack<WIDTH> b = position ? reinterpret_cast<const Pack<WIDTH> *>(position)[p] : Pack<WIDTH>{};
    for (int j = 0; j < WIDTH; j++) {
      const float sum = static_cast<float>(a.values[j]) + static_cast<float>(b.values[j]);
      a.values[j] = static_cast<element>(exists ? sum : nanf(""));
    }
    reinterpret_cast<Pack<WIDTH> *>(y)[p] = a;
  }
}

// out[n,:] = wte[tokens[n],:] + wpe[n % T,:], one warp per row.
__global__ void embedding_forward(element *out, const int *tokens, const element *wte, const element *wpe, int N, int T,
                                  int C, int V) {
  const int n = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  if (n >= N) return;
  const bool exists = tokens[n] >= 0 && tokens[n] < V;
  element *y = out + static_cast<size_t>(n) * C;
  const element *word = wte + static_cast<size_t>(exists ? tokens[n] : 0) * C;
  const element *position = wpe ? wpe + static_cast<size_t>(n % T) * C : nullptr;
  if (C % width == 0 && is_aligned(out) && is_aligned(wte) && is_aligned(wpe)) {
    forward_row<width>(y, word, position, exists, C);
  } else {
    forward_row<1>(y, word, position, exists, C);
  }
}

// ---- sorting the positions by token: passes of 8 bits, from the lowest, each of which keeps the order of equal digits ----

constexpr int tile = 256;    // positions of a block, one per thread
constexpr int digits = 256;  // values of 8 bits

// In the scratch memory, counts [digits, tiles] are followed by the orders of the positions after even passes and after odd ones.
__device__ int *order_after(int *scratch, int pass, int N) {
  return scratch + digits * ((N + tile - 1) / tile) + pass % 2 * N;
}

// The i-th position in the order before a pass.
__device__ int position_before(int *scratch, int pass, int N, int i) {
  return pass == 0 ? i : order_after(scratch, pass - 1, N)[i];
}

// A token, or V for all that do not exist: they come last.
__device__ int key_of(int token, int V) { return token >= 0 && token < V ? token : V; }

__device__ int digit_of(int token, int V, int pass) { return key_of(token, V) >> 8 * pass & (digits - 1); }

// counts[digit, tile] = how often a digit occurs in a tile. The atomics add integers, whose order does not matter.
__global__ void sort_count(int *scratch, const int *tokens, int N, int V, int pass) {
  __shared__ int counts[digits];
  const int i = blockIdx.x * tile + threadIdx.x;
  counts[threadIdx.x] = 0;
  __syncthreads();
  if (i < N) atomicAdd(&counts[digit_of(tokens[position_before(scratch, pass, N, i)], V, pass)], 1);
  __syncthreads();
  scratch[threadIdx.x * gridDim.x + blockIdx.x] = counts[threadIdx.x];
}

// Replaces each count by the sum of all before it, which is where the first position of that digit and tile goes: one block.
__global__ void sort_starts(int *counts, int count) {
  __shared__ int sums[1024];
  const int share = (count + 1023) / 1024, first = threadIdx.x * share, end = min(first + share, count);
  int own = 0;
  for (int i = first; i < end; i++) own += counts[i];
  sums[threadIdx.x] = own;
  __syncthreads();
  // After each round a thread has the sum of twice as many threads, itself the last.
  for (int step = 1; step < 1024; step *= 2) {
    const int before = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
    __syncthreads();
    sums[threadIdx.x] += before;
    __syncthreads();
  }
  int start = sums[threadIdx.x] - own;
  for (int i = first; i < end; i++) {
    const int here = counts[i];
    counts[i] = start;
    start += here;
  }
}

// Moves each position to the start of its digit and tile, plus the number of equal digits before it in the tile.
__global__ void sort_move(int *scratch, const int *tokens, int N, int V, int pass) {
  __shared__ int of_tile[tile];
  const int i = blockIdx.x * tile + threadIdx.x;
  const int position = i < N ? position_before(scratch, pass, N, i) : 0;
  const int digit = i < N ? digit_of(tokens[position], V, pass) : digits;
  of_tile[threadIdx.x] = digit;
  __syncthreads();
  if (i >= N) return;
  int place = scratch[digit * gridDim.x + blockIdx.x];
  for (int other = 0; other < threadIdx.x; other++) place += of_tile[other] == digit;
  order_after(scratch, pass, N)[place] = position;
}

// ---- gradients ----

// dwte[token] += the sum of dout over its positions. The block of a sorted position where a token's run begins adds the whole run, one
// channel per thread; other blocks end at once.
__global__ void embedding_backward_tokens(gradient *dwte, const element *dout, const int *tokens, int *scratch, int N,
                                          int C, int V, int last_pass) {
  __shared__ int rows[128];
  const int *sorted = order_after(scratch, last_pass, N);
  const int start = blockIdx.x, c = blockIdx.y * blockDim.x + threadIdx.x;
  const int token = key_of(tokens[sorted[start]], V);
  if (token == V || (start > 0 && tokens[sorted[start - 1]] == token)) return;
  float sum = 0;
  for (int first = start;; first += blockDim.x) {
    // A thread looks at one of the next positions. Those of the token are the first of them.
    const int i = first + threadIdx.x;
    const bool is_in_run = i < N && tokens[sorted[i]] == token;
    if (is_in_run) rows[threadIdx.x] = sorted[i];
    const int count = __syncthreads_count(is_in_run);
#pragma unroll 8
    for (int row = 0; row < count; row++) {
      if (c < C) sum += static_cast<float>(dout[static_cast<size_t>(rows[row]) * C + c]);
    }
    if (count < blockDim.x) break;
    __syncthreads();
  }
  if (c >= C) return;
  gradient &result = dwte[static_cast<size_t>(token) * C + c];
  result = static_cast<gradient>(static_cast<float>(result) + sum);
}

// dwpe[t] (=|+=) the sum over b of dout[b,t], one thread per element of the `plane` of T x C.
__global__ void embedding_backward_positions(gradient *dwpe, const element *dout, int B, int plane, int accumulate) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (!dwpe || i >= plane) return;
  float sum = 0;
#pragma unroll 8
  for (int b = 0; b < B; b++) sum += static_cast<float>(dout[static_cast<size_t>(b) * plane + i]);
  dwpe[i] = static_cast<gradient>((accumulate ? static_cast<float>(dwpe[i]) : 0) + sum);
}
