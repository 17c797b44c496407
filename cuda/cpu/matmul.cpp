// The linear layer in three directions: each is a matmul out[M,N] = A[M,K] * B[K,N], with different layouts of A and B:
//
//   forward          out = in * weight^T     A = in,      B = weight^T
//   backward input   din = dout * weight     A = dout,    B = weight
//   backward weight  dweight = dout^T * in   A = dout^T,  B = in
//
// The output is divided into blocks. A free thread takes the next block and computes it by the context's engine
// (product.h). Each result is summed over K in an order that does not depend on the blocks or the number of threads.
#include <algorithm>
#include <cmath>

#include "../gpt2.h"
#include "kernels.h"
#include "math.h"
#include "vectors.h"

namespace gpt2::GPT2_PATH {

namespace {

int ceil_divide(int value, int divisor) { return (value + divisor - 1) / divisor; }

struct Blocks {
  int rows, columns;  // of a block of the output
  int across, count;  // the number of blocks side by side, and in all
};

// Chooses the blocks with the least estimated time: each thread computes whole rounds of blocks, then waits for the
// last thread. The estimate of this wait is 1/100 of a block's time for each thread. With 1/10 for any number of
// threads, blocks were smaller, and steps in fp32 took 3 to 7% longer with 2 threads, but not with 8 (Xeons with AMX,
// 2026-11-28). Copying an element of A or B takes about half a cycle.
Blocks choose_blocks(const Engine &engine, int threads, int M, int N, int depth) {
  const int tiles_m = ceil_divide(M, engine.tile_m), tiles_n = ceil_divide(N, engine.tile_n);
  const int fewest = ceil_divide(M, engine.a_elements / depth / 32 * 32);
  const float wait = threads > 1 ? 0.01f * static_cast<float>(threads) : 0;
  Blocks best{};
  float least = 0;
  for (int down = fewest; down <= std::min(tiles_m, fewest + std::min(2 * threads, 16)); down++) {
    for (int across = 1; across <= std::min({tiles_n, 4 * threads, 512}); across++) {
      const int m = ceil_divide(tiles_m, down), n = ceil_divide(tiles_n, across), side = ceil_divide(tiles_n, n);
      const Blocks blocks{m * engine.tile_m, n * engine.tile_n, side, ceil_divide(tiles_m, m) * side};
      const float block = blocks.rows * (blocks.columns * engine.cycles + 0.5f) + blocks.columns * 0.5f;
      const float estimate = (static_cast<float>(ceil_divide(blocks.count, threads)) + wait) * block;
      if (best.count == 0 || estimate < least) {
        best = blocks;
        least = estimate;
      }
    }
  }
  return best;
}

// Whether an output [M,N] is too large for a core's caches, so that no later op would find it there.
bool is_large(int M, int N) { return static_cast<int64_t>(M) * N >= 1 << 18; }

constexpr int SLAB = 64;

int slabs_of(int O) { return ceil_divide(O, SLAB); }

// Sums over rows in double: a bias's gradient has as many terms as the batch has tokens.
void slab_sums(float *sums, const float *values, int N, int O, int slab, bool accumulate) {
  const int first = slab * SLAB, width = std::min(SLAB, O - first);
  double total[SLAB] = {};
  for (int n = 0; n < N; n++) {
    const float *row = values + static_cast<size_t>(n) * O + first;
    for (int o = 0; o < width; o++) total[o] += row[o];
  }
  for (int o = 0; o < width; o++) {
    sums[first + o] = static_cast<float>((accumulate ? sums[first + o] : 0) + total[o]);
  }
}

// The memory to prefetch for rows [first, first + count) and columns [k, k + depth) of the view.
Ahead rows_of(View view, int first, int count, int k, int depth) {
  const bool along = view.column_stride == 1;
  const int bytes = static_cast<int>(view.bytes());
  return {static_cast<const char *>(view.at(first, k)), (along ? view.row_stride : view.column_stride) * bytes,
          (along ? depth : count) * bytes, along ? count : depth};
}

// Floats of the memory for columns of B that are copied once for all threads: 4.5 MiB.
constexpr int64_t SHARED_FLOATS = 1536 * 768;
static_assert(SHARED_FLOATS >= B_FLOATS);

// Computes out (=|+=) a b^T by an engine: a is [M,K], b is [N,K].
struct Product {
  const Task task;
  const Output out;
  const View a, b;
  const int M, N, K;
  const Engine &engine = *task.engine;
  const int block_k = ceil_divide(ceil_divide(K, ceil_divide(K, engine.block_k)), 32) * 32;
  // Sizes, in floats, of tile_n columns of B in bf16, two in each float: `line` for one k, `panel` for block_k values of k.
  const int line = engine.tile_n / 2;
  const int64_t panel = static_cast<int64_t>(line) * block_k;
  float *const panels = task.scratch + task.pool.threads() * PRODUCT_FLOATS;

  int depth(int k) const { return std::min(block_k, K - k); }
  int width(int column, int end) const { return std::min(engine.tile_n, end - column); }
  Blocks choose(int columns) const { return choose_blocks(engine, task.pool.threads(), M, columns, block_k); }

  // Computes a block of the output in columns [first, end), over block_k of K from `k` on. If `is_shared`, `panels`
  // holds all these columns of B; else the thread copies the columns of its block.
  void compute(Blocks blocks, int index, int first, int end, int k, bool is_shared, int thread) const {
    float *block_of_a = task.scratch + thread * PRODUCT_FLOATS, *block_of_b = block_of_a + A_FLOATS;
    const int m = index / blocks.across * blocks.rows, rows = std::min(blocks.rows, M - m);
    const int n = first + index % blocks.across * blocks.columns, last = std::min(n + blocks.columns, end);
    if (n >= end) return;
    const Block copy = engine.copy_a(block_of_a, a, m, rows, k, depth(k));
    for (int column = n; column < last; column += engine.tile_n) {
      const int columns = width(column, last), next = column + columns, then = width(next, last);
      Output block = out.at(m, column);
      block.add = out.add || k > 0;
      block.stream = out.stream && depth(k) == K;
      if (k + depth(k) < K) block.finish = nullptr;
      if (is_shared) {
        const float *shared = panels + (column - first) / engine.tile_n * panel;
        const Ahead ahead{reinterpret_cast<const char *>(shared + panel), 0, static_cast<int>(panel) * 4, then > 0};
        engine.multiply(block, copy, {shared, depth(k)}, depth(k), rows, columns, ahead);
      } else {
        const Block of_b = engine.copy_b(block_of_b, b, column, columns, k, depth(k));
        engine.multiply(block, copy, of_b, depth(k), rows, columns, rows_of(b, next, then, k, depth(k)));
      }
    }
  }

  // Runs other(0) to other(others - 1), then computes the product. No thread waits between the two.
  template <class Other>
  void run(int others, const Other &other) const {
    const Blocks blocks = choose(N);
    const bool along = b.column_stride == 1;
    // Threads share copies of B where this saves more time than they lose by waiting for each other. In bf16 they share
    // always in backward, and in forward (B lies along lines of memory) from three blocks of rows on. In fp32 sharing
    // saves nothing with 2 threads, and with 16 costs a tenth of a step of d12 at batch 4 x 256.
    if (!engine.is_bf16 || (along && ceil_divide(M, blocks.rows) <= 2)) {
      return task.pool.each_free(others + blocks.count, [&](int64_t at, int thread) {
        if (at < others) return other(static_cast<int>(at));
        for (int k = 0; k < K; k += block_k) compute(blocks, static_cast<int>(at) - others, 0, N, k, false, thread);
      });
    }
    // Columns of B are copied once for all blocks of rows: on a Xeon the products of d12's backward at 4 x 256 then run
    // 1.2 to 1.5 times as fast in bf16. Threads copy pieces that are whole lines of memory: tile_n columns of B if a
    // column is a line, else all columns for a range of k.
    const int all = ceil_divide(N, engine.tile_n), parts = ceil_divide(all, static_cast<int>(SHARED_FLOATS / panel));
    const int columns = ceil_divide(all, parts) * engine.tile_n;
    // The blocks of one group of columns. The last group may be narrower, and have fewer blocks.
    const Blocks some = choose(std::min(columns, N));
    const int part_of_k = std::clamp(block_k / (4 * task.pool.threads()) / 32 * 32, 32, 128);
    const int wide = along ? engine.tile_n : columns, deep = along ? block_k : part_of_k;
    for (int k = 0; k < K; k += block_k) {
      for (int first = 0; first < N; first += columns) {
        const int end = std::min(first + columns, N), more = k + first == 0 ? others : 0;
        const int pieces = ceil_divide(end - first, wide) * ceil_divide(depth(k), deep);
        task.pool.each_free(more + pieces, [&](int64_t at, int) {
          if (at < more) return other(static_cast<int>(at));
          const int piece = static_cast<int>(at) - more, n = along ? piece * wide : 0, d = along ? 0 : piece * deep;
          float *to = panels + n / engine.tile_n * panel + d * line;
          engine.copy_columns(to, b, first + n, std::min(wide, end - first - n), k + d, std::min(deep, depth(k) - d),
                              block_k);
        });
        task.pool.each_free(some.count, [&](int64_t index, int thread) {
          compute(some, static_cast<int>(index), first, end, k, true, thread);
        });
      }
    }
  }
};

constexpr auto nothing = [](int) {};

// Prefetches a line that `finish` reads or writes some rows later: the CPU does not prefetch rows that are far apart.
void fetch_line(const float *line, int columns) {
  for (int i = 0; i < columns; i += 16) __builtin_prefetch(line + i, 1);
}

void few_rows_forward(Task task, float *out, const float *in, const float *weight, int N, int C, int O) {
  task.pool.each(O, [&](int64_t o) {
    const float *line = weight + static_cast<size_t>(o) * C;
    for (int n = 0; n < N; n++) {
      const float *row = in + static_cast<size_t>(n) * C;
      out[static_cast<size_t>(n) * O + o] = dot(row, line, C);
    }
  });
}

}  // namespace

void column_sums(Task task, float *sums, const float *values, int N, int O, bool accumulate) {
  task.pool.each(slabs_of(O),
                 [&](int64_t slab) { slab_sums(sums, values, N, O, static_cast<int>(slab), accumulate); });
}

void relu_squared_forward(Task task, float *out, const float *in, int64_t count) {
  task.pool.ranges(count,
                   [&](int64_t first, int64_t last) { relu_squared_line(out + first, in + first, last - first); });
}

void matmul_forward(Task task, float *out, float *pre, const float *in, const float *weight, const float *bias,
                    const float *residual, int N, int C, int O, int activation) {
  const size_t c = C, o = O;
  const auto finish = [&](int row, int column, float *sums, int columns) {
    const size_t first = row * o + column;
    float *to = out + first;
    if (residual) fetch_line(residual + first + 8 * o, columns);
    if (bias) add_line(sums, sums, bias + column, columns);
    // `pre`, the sums before the activation, bypasses the caches, because only backward reads it.
    if (pre && pre + first != sums) stream_line(pre + first, sums, columns);
    if (activation == GPT2_GELU) gelu_line(to, sums, columns);
    if (activation == GPT2_RELU_SQUARED) relu_squared_line(to, sums, columns);
    const float *activated = activation == GPT2_NO_ACTIVATION ? sums : to;
    if (residual) {
      add_line(to, residual + first, activated, columns);
    } else if (activated != to) {
      std::copy_n(activated, columns, to);
    }
  };
  if (N <= task.engine->few_rows) {
    float *sums = pre ? pre : out;
    few_rows_forward(task, sums, in, weight, N, C, O);
    for (int row = 0; row < N; row++) finish(row, 0, sums + row * o, O);
    return;
  }
  const Finish each(finish);
  const bool is_sums = !bias && !residual && activation == GPT2_NO_ACTIVATION;
  const Output to{out, o, false, is_sums && is_large(N, O), is_sums ? nullptr : &each};
  Product{task, to, {in, c, 1}, {weight, c, 1}, N, O, C}.run(0, nothing);
}

void matmul_backward_input(Task task, float *din, const float *dout, const float *weight, const float *pre,
                           const float *activated, int N, int C, int O, int activation) {
  const size_t c = C;
  const auto finish = [&](int row, int column, float *sums, int columns) {
    const size_t first = row * c + column;
    float *to = din + first;
    if (pre) fetch_line(pre + first + 8 * c, columns);
    if (activation == GPT2_GELU) {
      gelu_backward_line(to, sums, pre + first, columns);
    } else {
#pragma omp simd
      for (int i = 0; i < columns; i++) to[i] = sums[i] * (2.0f * std::sqrt(activated[first + i]));
    }
  };
  const Finish each(finish);
  const Output to{din, c, false, false, activation == GPT2_NO_ACTIVATION ? nullptr : &each};
  Product{task, to, {dout, static_cast<size_t>(O), 1}, {weight, 1, c}, N, C, O}.run(0, nothing);
}

void matmul_gradients(Task task, float *din, float *dweight, View dout, const float *in, const float *weight, int N,
                      int C, int O, bool accumulate) {
  const size_t c = C;
  if (din) Product{task, {din, c, false}, dout, {weight, 1, c}, N, C, O}.run(0, nothing);
  const Output to{dweight, c, accumulate, !accumulate && is_large(O, C)};
  if (dweight) Product{task, to, dout.transposed(), {in, 1, c}, O, C, N}.run(0, nothing);
}

void matmul_backward_weight(Task task, float *dweight, float *dbias, const float *dout, const float *in, int N, int C,
                            int O, bool accumulate) {
  const size_t c = C;
  const Output to{dweight, c, accumulate, !accumulate && is_large(O, C)};
  Product{task, to, {dout, 1, static_cast<size_t>(O)}, {in, 1, c}, O, C, N}.run(
      dbias ? slabs_of(O) : 0, [&](int slab) { slab_sums(dbias, dout, N, O, slab, accumulate); });
}

// Floats of scratch in every direction: a block of A and one of B for each thread, and blocks of B that threads share.
int64_t matmul_scratch(int threads, int, int, int, bool) { return threads * PRODUCT_FLOATS + SHARED_FLOATS; }

}  // namespace gpt2::GPT2_PATH
