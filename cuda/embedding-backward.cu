// Embedding backward: adds the rows of dout that share a token, without atomics. Positions are sorted by token (a
// stable radix sort, two passes of 8 bits), then each warp adds the rows of 32 adjacent sorted positions, a window. A
// token that spans several windows leaves partial sums, which a last kernel adds in order.
#include "embedding-backward.cuh"

#include <string>

#include "runtime/checks.h"
#include "runtime/ops.generated.h"

namespace gpt2 {

namespace {

constexpr int threads = 256;
constexpr int warps = threads / 32;

// The gradient of wpe: for V adjacent columns of one position, a thread sums each column over all sequences.
template <int V, class T, class G>
__global__ void __launch_bounds__(threads)
    position_kernel(G *dwpe, const T *dout, int B, int64_t plane, bool accumulate) {
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x) * V;
  if (i >= plane) return;
  float sum[V] = {};
  if (accumulate) load(sum, static_cast<const G *>(dwpe + i));
#pragma unroll 8
  for (int b = 0; b < B; b++) {
    float values[V];
    load(values, dout + b * plane + i);
#pragma unroll
    for (int j = 0; j < V; j++) sum[j] += values[j];
  }
  store(dwpe + i, sum);
}

// ---- sorting positions by token ----

constexpr int digits = 256;
static_assert(most_sorted_tokens == digits * digits, "what two passes can sort");
constexpr int tile = 2048;                    // positions per block; each warp ranks 256 of them in order
constexpr int rounds = tile / threads;

// The input of a radix sort pass: the positions in the previous pass's order, and their tokens as sort keys.
struct Keys {
  const int32_t *tokens;
  const int32_t *order;  // NULL in the first pass: 0, 1, 2, ...
  int count, vocabulary, shift;

  // A token outside the vocabulary sorts last and is added nowhere. At V = 65,536 no 16-bit token is outside.
  __device__ int token(int position) const {
    const int token = tokens[position];
    return token >= 0 && token < vocabulary ? token : 0xffff;
  }
  __device__ int position(int i) const { return order ? order[i] : i; }
  __device__ int digit(int i) const { return token(position(i)) >> shift & (digits - 1); }
};

// Reads the block's digits in the order of warps, rounds, lanes. `seen` counts each warp's digits; `rank` is the number
// of equal digits earlier in the same warp.
__device__ __forceinline__ void rank_digits(const Keys &keys, int (&seen)[warps][digits], int (&digit)[rounds],
                                            int (&rank)[rounds]) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int i = threadIdx.x; i < warps * digits; i += threads) seen[i / digits][i % digits] = 0;
  __syncthreads();
#pragma unroll
  for (int round = 0; round < rounds; round++) {
    const int i = blockIdx.x * tile + warp * (tile / warps) + round * 32 + lane;
    digit[round] = i < keys.count ? keys.digit(i) : -1;
    const unsigned peers = __match_any_sync(0xffffffffu, digit[round]);
    const int before = __popc(peers & ((1u << lane) - 1));
    rank[round] = digit[round] >= 0 ? seen[warp][digit[round]] + before : 0;
    __syncwarp();
    if (digit[round] >= 0 && before == 0) seen[warp][digit[round]] += __popc(peers);
    __syncwarp();
  }
  __syncthreads();
}

// counts[digit,tile] = the number of positions in the block's tile that have this digit.
__global__ void __launch_bounds__(threads) count_kernel(int32_t *counts, Keys keys) {
  __shared__ int seen[warps][digits];
  int digit[rounds], rank[rounds];
  rank_digits(keys, seen, digit, rank);
  int total = 0;
  for (int warp = 0; warp < warps; warp++) total += seen[warp][threadIdx.x];
  counts[threadIdx.x * gridDim.x + blockIdx.x] = total;
}

// Replaces the counts by their exclusive prefix sums: the output index where each digit of each tile starts. One block.
__global__ void __launch_bounds__(1024) start_kernel(int32_t *counts, int count) {
  __shared__ int sums[32];
  int before = 0;
  for (int base = 0; base < count; base += 1024) {
    const int i = base + threadIdx.x;
    const int number = i < count ? counts[i] : 0;
    const int scan = sum_up_to_lane(number);
    if (threadIdx.x % 32 == 31) sums[threadIdx.x / 32] = scan;
    __syncthreads();
    int all = 0, earlier = 0;
    for (int warp = 0; warp < 32; warp++) {
      if (warp < threadIdx.x / 32) earlier += sums[warp];
      all += sums[warp];
    }
    if (i < count) counts[i] = before + earlier + scan - number;
    before += all;
    __syncthreads();
  }
}

__global__ void __launch_bounds__(threads) scatter_kernel(int32_t *sorted, const int32_t *starts, Keys keys) {
  __shared__ int seen[warps][digits];
  int digit[rounds], rank[rounds];
  rank_digits(keys, seen, digit, rank);
  int start = starts[threadIdx.x * gridDim.x + blockIdx.x];
  for (int warp = 0; warp < warps; warp++) {
    const int number = seen[warp][threadIdx.x];
    seen[warp][threadIdx.x] = start;
    start += number;
  }
  __syncthreads();
#pragma unroll
  for (int round = 0; round < rounds; round++) {
    const int warp = threadIdx.x / 32;
    const int i = blockIdx.x * tile + warp * (tile / warps) + round * 32 + threadIdx.x % 32;
    if (i < keys.count) sorted[seen[warp][digit[round]] + rank[round]] = keys.position(i);
  }
}

// ---- adding rows that share a token ----

constexpr int window = 32;

// A warp adds the rows of a window of 32 sorted positions, one of 32 columns per lane. A run (equal tokens) that lies
// inside the window is added to dwte. The first run, if it began in an earlier window, and the last run, if it
// continues in the next, become partial sums [windows,2,C].
template <class T, class G>
__global__ void __launch_bounds__(threads)
    window_kernel(G *dwte, float *partial, const T *dout, const float *factors, const int32_t *sorted, Keys keys, int C,
                  int windows) {
  const int lane = threadIdx.x % 32;
  const int index = blockIdx.x * warps + threadIdx.x / 32;
  const int column = blockIdx.y * 32 + lane;
  if (index >= windows) return;
  const int first = index * window, last = min(first + window, keys.count);
  const int mine = first + lane < last ? sorted[first + lane] : 0;
  const int token_of_mine = first + lane < last ? keys.token(mine) : -1;
  const float factor_of_mine = factors ? factors[mine] : 1.0f;
  const int before = first > 0 ? keys.token(sorted[first - 1]) : -1;
  const int after = last < keys.count ? keys.token(sorted[last]) : -1;
  float sum = 0;
  for (int i = 0; i < last - first; i++) {
    const int64_t position = __shfl_sync(0xffffffffu, mine, i);
    const int token = __shfl_sync(0xffffffffu, token_of_mine, i);
    const int next = i + 1 < last - first ? __shfl_sync(0xffffffffu, token_of_mine, i + 1) : -1;
    const float factor = __shfl_sync(0xffffffffu, factor_of_mine, i);
    if (column < C) sum = fmaf(to_float(dout[position * C + column]), factor, sum);
    if (next == token) continue;
    // The run of equal tokens, or the window, ends at position i.
    const bool began_before = token == before && __shfl_sync(0xffffffffu, token_of_mine, 0) == token;
    const bool goes_on = i + 1 == last - first && token == after;
    if (column < C && token < keys.vocabulary) {
      if (began_before || goes_on) {
        partial[(static_cast<int64_t>(index) * 2 + (began_before ? 0 : 1)) * C + column] = sum;
      } else {
        G *row = dwte + static_cast<int64_t>(token) * C + column;
        *row = from_float<G>(to_float(*row) + sum);
      }
    }
    sum = 0;
  }
}

// Adds the runs that span several windows: the blocks of a run's first window add the later windows' partial sums.
template <class G>
__global__ void __launch_bounds__(threads)
    join_kernel(G *dwte, const float *partial, const int32_t *sorted, Keys keys, int C, int windows) {
  const int index = blockIdx.x;
  const int last = min((index + 1) * window, keys.count) - 1;
  if (last + 1 >= keys.count) return;
  const int token = keys.token(sorted[last]);
  if (token >= keys.vocabulary || keys.token(sorted[last + 1]) != token) return;
  const int first = index * window;
  const bool began_before = first > 0 && keys.token(sorted[first]) == token && keys.token(sorted[first - 1]) == token;
  if (began_before) return;
  // `end` is the first later window that does not begin with the token. All threads search for the end, because a
  // frequent token spans hundreds of windows: a search by one thread took half of the kernel's 0.27 ms (32,768
  // positions of Python sources, H100).
  int end = index + 1;
  for (int same = threads; same == threads; end += same) {
    const int next = end + static_cast<int>(threadIdx.x);
    same = __syncthreads_count(next < windows && keys.token(sorted[next * window]) == token);
  }
  const int column = static_cast<int>(blockIdx.y) * threads + static_cast<int>(threadIdx.x);
  if (column >= C) return;
  float sum = partial[(static_cast<int64_t>(index) * 2 + 1) * C + column];
#pragma unroll 8
  for (int next = index + 1; next < end; next++) sum += partial[static_cast<int64_t>(next) * 2 * C + column];
  G *row = dwte + static_cast<int64_t>(token) * C + column;
  *row = from_float<G>(to_float(*row) + sum);
}

struct Buffers {
  int32_t *counts, *half_sorted, *sorted;
  float *partial;

  Buffers(Scratch &scratch, int64_t N, int C) {
    counts = scratch.take<int32_t>(ceil_divide(N, tile) * digits);
    half_sorted = scratch.take<int32_t>(N);
    sorted = scratch.take<int32_t>(N);
    partial = scratch.take<float>(ceil_divide(N, window) * 2 * C);
  }
};

}  // namespace

int64_t token_sums_scratch(int64_t N, int C) {
  Scratch scratch;
  Buffers buffers(scratch, N, C);
  return scratch.bytes();
}

void add_token_sums(const CudaContext &context, void *sums, float *factor_sums, const void *rows, const float *factors,
                    const int32_t *tokens, int N, int C, int V, void *memory) {
  Scratch scratch(memory);
  const Buffers buffers(scratch, N, C);
  const auto tiles = static_cast<unsigned>(ceil_divide(N, tile));
  Keys keys{tokens, nullptr, N, V, 0};
  const auto pass = [&](int32_t *sorted) {
    count_kernel<<<tiles, threads, 0, context.stream>>>(buffers.counts, keys);
    start_kernel<<<1, 1024, 0, context.stream>>>(buffers.counts, static_cast<int>(tiles) * digits);
    scatter_kernel<<<tiles, threads, 0, context.stream>>>(sorted, buffers.counts, keys);
  };
  pass(buffers.half_sorted);
  keys.order = buffers.half_sorted;
  keys.shift = 8;
  pass(buffers.sorted);
  const int windows = static_cast<int>(ceil_divide(N, window));
  const auto add = [&](auto *to, const auto *from, const float *by, int columns) {
    const auto of_columns = [&](int width) { return static_cast<unsigned>(ceil_divide(columns, width)); };
    const dim3 grid(static_cast<unsigned>(ceil_divide(windows, warps)), of_columns(32));
    const dim3 joins(windows, of_columns(threads));
    window_kernel<<<grid, threads, 0, context.stream>>>(to, buffers.partial, from, by, buffers.sorted, keys, columns,
                                                        windows);
    join_kernel<<<joins, threads, 0, context.stream>>>(to, buffers.partial, buffers.sorted, keys, columns, windows);
  };
  with_types(context, !context.accumulates, [&](auto element, auto gradient) {
    add(static_cast<decltype(gradient) *>(sums), static_cast<const decltype(element) *>(rows), factors, C);
  });
  if (factor_sums) add(factor_sums, factors, static_cast<const float *>(nullptr), 1);
}

int64_t ops::embedding_scratch(const Context &, int B, int T, int C, int) {
  return token_sums_scratch(static_cast<int64_t>(B) * T, C);
}

void ops::embedding_backward(Context &gpu, void *dwte, void *dwpe, const void *dout, const int32_t *tokens, int B,
                             int T, int C, int V, bool accumulate) {
  if (V > most_sorted_tokens) {
    throw Failure{GPT2_UNSUPPORTED, "V = " + std::to_string(V) + " is over the " + std::to_string(most_sorted_tokens) +
                                        " tokens that are sorted"};
  }
  if (dwpe) {
    const int64_t plane = static_cast<int64_t>(T) * C;
    with_types(gpu, !gpu.accumulates, [&](auto element, auto gradient) {
      auto *out = static_cast<decltype(gradient) *>(dwpe);
      auto *dy = static_cast<const decltype(element) *>(dout);
      // 4 columns per thread even in bf16: with 8, T x C would give too few threads.
      with_vectors<float>(
          plane,
          [&](auto V) {
            position_kernel<V><<<static_cast<unsigned>(ceil_divide(plane, threads * V)), threads, 0, gpu.stream>>>(
                out, dy, B, plane, accumulate);
          },
          out, dy);
    });
  }
  add_token_sums(gpu, dwte, nullptr, dout, nullptr, tokens, B * T, C, V, gpu.workspace);
}

}  // namespace gpt2
