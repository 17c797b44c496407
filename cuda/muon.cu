// Muon (Jordan 2024) without its Newton-Schulz iteration (newton-schulz.cu). Memory-bound. With bf16 gradients and
// weights, the traffic of a parameter is 12 bytes in muon_momentum (gradient 2, momentum 8, direction 2), 6 in
// normalize_matrices and 12 in muon_update (direction 2, master 8, weight 2).
//
// muon_momentum and muon_update take tiles of 64 x 64 elements, whose rows are whole sectors of DRAM in every type.
// If rows > columns the direction is stored transposed. Its tiles go through shared memory, so that reads and writes
// both access 16 adjacent bytes.
#include "common/device.cuh"
#include "newton-schulz.cuh"
#include "runtime/checks.h"
#include "runtime/ops.generated.h"

namespace gpt2 {

namespace {

constexpr int threads = 256;
constexpr int tile = 64;
constexpr int group = 4;  // adjacent elements of a row that a thread takes at a time
constexpr int groups = tile / group;
constexpr int turns = tile * groups / threads;
// A tile in shared memory. Rows have 65 floats, so that at most two threads read a column from the same bank.
using SharedTile = float[tile][tile + 1];

// Loads the first `valid` of COUNT adjacent elements; in one access if all are valid and aligned (`vectors`).
template <class T, int COUNT>
__device__ __forceinline__ void load_part(float (&values)[COUNT], const T *source, int valid, bool vectors) {
  if (vectors && valid >= COUNT) return load(values, source);
#pragma unroll
  for (int i = 0; i < COUNT; i++) values[i] = i < valid ? to_float(source[i]) : 0;
}
template <class T, int COUNT>
__device__ __forceinline__ void store_part(T *destination, const float (&values)[COUNT], int valid, bool vectors) {
  if (vectors && valid >= COUNT) return store(destination, values);
#pragma unroll
  for (int i = 0; i < COUNT; i++) {
    if (i < valid) destination[i] = from_float<T>(values[i]);
  }
}

struct Matrix {
  int rows, columns;
  bool vectors;  // whether every row begins on a multiple of 16 bytes
};

// The tile of a thread block, and the 4 adjacent elements that a thread takes in each iteration (`turn`).
struct Place {
  int m0, n0;
  __device__ explicit Place(const Matrix &matrix) {
    const int tiles_n = (matrix.columns + tile - 1) / tile;
    m0 = static_cast<int>(blockIdx.x / tiles_n) * tile;
    n0 = static_cast<int>(blockIdx.x % tiles_n) * tile;
  }
  __device__ static int row(int turn) { return turn * (threads / groups) + static_cast<int>(threadIdx.x) / groups; }
  __device__ static int column() { return static_cast<int>(threadIdx.x) % groups * group; }
  __device__ int64_t at(const Matrix &matrix, int turn) const {
    return static_cast<int64_t>(m0 + row(turn)) * matrix.columns + n0 + column();
  }
  __device__ int valid(const Matrix &matrix, int turn) const {
    return m0 + row(turn) < matrix.rows ? matrix.columns - n0 - column() : 0;
  }
};

// Calls body(address, shared row, shared column, valid) for each group of COUNT adjacent elements that a thread takes
// of a tile of the transpose [columns,rows].
template <int COUNT, class T, class Body>
__device__ __forceinline__ void for_transposed(T *transpose, const Matrix &matrix, const Place &place, Body body) {
  constexpr int parts = tile / COUNT;
#pragma unroll
  for (int turn = 0; turn < tile * parts / threads; turn++) {
    const int line = turn * (threads / parts) + static_cast<int>(threadIdx.x) / parts;
    const int first = static_cast<int>(threadIdx.x) % parts * COUNT;
    const int column = place.n0 + line, row = place.m0 + first;
    body(transpose + static_cast<int64_t>(column) * matrix.rows + row, first, line,
         column < matrix.columns ? matrix.rows - row : 0);
  }
}

template <bool TRANSPOSES, class T, class G>
__global__ void __launch_bounds__(threads)
    momentum_kernel(T *direction, float *momentum, const G *gradient, const float *step, Matrix matrix,
                    int scalar) {
  if (step[GPT2_STEP_UPDATED] == 0) return;
  const float mu = step[scalar], clip = step[GPT2_STEP_CLIP];
  const Place place(matrix);
  [[maybe_unused]] __shared__ SharedTile shared;
  float g[turns][group], m[turns][group];
#pragma unroll
  for (int turn = 0; turn < turns; turn++) {
    const int64_t at = place.at(matrix, turn);
    load_part(g[turn], gradient + at, place.valid(matrix, turn), matrix.vectors);
    load_part(m[turn], momentum + at, place.valid(matrix, turn), matrix.vectors);
  }
#pragma unroll
  for (int turn = 0; turn < turns; turn++) {
    const int64_t at = place.at(matrix, turn);
    const int valid = place.valid(matrix, turn);
    float nesterov[group];
#pragma unroll
    for (int i = 0; i < group; i++) {
      const float share = (1.0f - mu) * (g[turn][i] * clip);
      m[turn][i] = mu * m[turn][i] + share;
      nesterov[i] = mu * m[turn][i] + share;
    }
    store_part(momentum + at, m[turn], valid, matrix.vectors);
    if constexpr (TRANSPOSES) {
#pragma unroll
      for (int i = 0; i < group; i++) shared[Place::row(turn)][Place::column() + i] = nesterov[i];
    } else {
      store_part(direction + at, nesterov, valid, matrix.vectors);
    }
  }
  if constexpr (TRANSPOSES) {
    __syncthreads();
    constexpr int count = vector_size<T>;
    for_transposed<count>(direction, matrix, place, [&](T *to, int row, int column, int valid) {
      float values[count];
#pragma unroll
      for (int i = 0; i < count; i++) values[i] = shared[row + i][column];
      store_part(to, values, valid, matrix.vectors);
    });
  }
}

// W is the weights' type. If W is float, `weight` and `master` are the same memory.
template <bool TRANSPOSES, class W>
__global__ void __launch_bounds__(threads) update_kernel(W *weight, float *master, const W *direction,
                                                         const float *step, Matrix matrix, float rate,
                                                         float weight_decay) {
  if (step[GPT2_STEP_UPDATED] == 0) return;
  const float learning_rate = rate * step[GPT2_STEP_LEARNING_RATE];
  const float keep = 1.0f - learning_rate * weight_decay;
  const float height = static_cast<float>(matrix.rows) / static_cast<float>(matrix.columns);
  const float scale = learning_rate * sqrtf(fmaxf(1.0f, height));
  const Place place(matrix);
  [[maybe_unused]] __shared__ SharedTile shared;
  float value[turns][group], change[turns][group];
#pragma unroll
  for (int turn = 0; turn < turns; turn++) {
    load_part(value[turn], master + place.at(matrix, turn), place.valid(matrix, turn), matrix.vectors);
  }
  if constexpr (TRANSPOSES) {
    constexpr int count = vector_size<W>;
    for_transposed<count>(direction, matrix, place, [&](const W *from, int row, int column, int valid) {
      float values[count];
      load_part(values, from, valid, matrix.vectors);
#pragma unroll
      for (int i = 0; i < count; i++) shared[row + i][column] = values[i];
    });
    __syncthreads();
  }
#pragma unroll
  for (int turn = 0; turn < turns; turn++) {
    if constexpr (TRANSPOSES) {
#pragma unroll
      for (int i = 0; i < group; i++) change[turn][i] = shared[Place::row(turn)][Place::column() + i];
    } else {
      load_part(change[turn], direction + place.at(matrix, turn), place.valid(matrix, turn), matrix.vectors);
    }
  }
#pragma unroll
  for (int turn = 0; turn < turns; turn++) {
    const int64_t at = place.at(matrix, turn);
    const int valid = place.valid(matrix, turn);
#pragma unroll
    for (int i = 0; i < group; i++) value[turn][i] = keep * value[turn][i] - scale * change[turn][i];
    store_part(master + at, value[turn], valid, matrix.vectors);
    if constexpr (sizeof(W) == 2) store_part(weight + at, value[turn], valid, matrix.vectors);
  }
}

template <class... Pointers>
Matrix matrix_of(int rows, int columns, Pointers... pointers) {
  // In every type, rows of a multiple of 8 elements begin on multiples of 16 bytes.
  return {rows, columns, rows % 8 == 0 && columns % 8 == 0 && on_16_bytes(pointers...)};
}

unsigned tiles_of(int rows, int columns) {
  return static_cast<unsigned>(ceil_divide(rows, tile) * ceil_divide(columns, tile));
}

// Blocks per matrix in both passes of normalize_matrices. A batch of matrices fills a GPU many times over.
constexpr int blocks = 64;

// partial [M,blocks] = the sum of squares over each block's part of a matrix.
template <class T>
__global__ void __launch_bounds__(threads)
    square_sum_kernel(double *partial, const T *matrices, int64_t count, bool vectors) {
  constexpr int V = vector_size<T>;
  const int64_t block = blockIdx.x % blocks;
  const T *values = matrices + blockIdx.x / blocks * count;
  float sum = 0;
  for (int64_t at = (block * threads + threadIdx.x) * V; at < count; at += int64_t{blocks} * threads * V) {
    float x[V];
    load_part(x, values + at, static_cast<int>(min(count - at, int64_t{V})), vectors);
#pragma unroll
    for (int i = 0; i < V; i++) sum += x[i] * x[i];
  }
  const double total = block_sum<threads>(static_cast<double>(sum));
  if (threadIdx.x == 0) partial[blockIdx.x] = total;
}

template <class T>
__global__ void __launch_bounds__(threads)
    divide_kernel(T *matrices, const double *partial, int64_t count, float margin, float eps, bool vectors) {
  constexpr int V = vector_size<T>;
  const int64_t block = blockIdx.x % blocks, matrix = blockIdx.x / blocks;
  T *values = matrices + matrix * count;
  const double part = threadIdx.x < blocks ? partial[matrix * blocks + threadIdx.x] : 0;
  const float scale = 1.0f / (margin * static_cast<float>(sqrt(block_sum<threads>(part))) + eps);
  for (int64_t at = (block * threads + threadIdx.x) * V; at < count; at += int64_t{blocks} * threads * V) {
    const int valid = static_cast<int>(min(count - at, int64_t{V}));
    float x[V];
    load_part(x, values + at, valid, vectors);
#pragma unroll
    for (int i = 0; i < V; i++) x[i] *= scale;
    store_part(values + at, x, valid, vectors);
  }
}

}  // namespace

void ops::muon_momentum(Context &gpu, void *direction, float *momentum, const void *gradient, const float *step,
                        int rows, int columns, int gradient_dtype, int scalar) {
  check_that(gradient_dtype == GPT2_FP32 || gpu.dtype == GPT2_BF16,
             "gradient_dtype fp32 or the context's, got " + std::to_string(gradient_dtype));
  const Matrix matrix = matrix_of(rows, columns, direction, momentum, gradient);
  with_types(gpu, gradient_dtype == GPT2_BF16, [&](auto element, auto gradient_element) {
    using T = decltype(element);
    using G = decltype(gradient_element);
    with_flag(rows > columns, [&](auto transposes) {
      momentum_kernel<transposes><<<tiles_of(rows, columns), threads, 0, gpu.stream>>>(
          static_cast<T *>(direction), momentum, static_cast<const G *>(gradient), step, matrix, scalar);
    });
  });
}

void ops::normalize_matrices(Context &gpu, void *matrices, int M, int R, int K, float margin, float eps) {
  const int64_t count = static_cast<int64_t>(R) * K;
  double *partial = static_cast<double *>(gpu.workspace);
  const unsigned all = static_cast<unsigned>(M) * blocks;
  with_element_type(gpu, [&](auto element) {
    using T = decltype(element);
    T *values = static_cast<T *>(matrices);
    const bool vectors = count % vector_size<T> == 0 && on_16_bytes(values);
    square_sum_kernel<<<all, threads, 0, gpu.stream>>>(partial, static_cast<const T *>(values), count, vectors);
    divide_kernel<<<all, threads, 0, gpu.stream>>>(values, partial, count, margin, eps, vectors);
  });
}

int64_t normalize_matrices_scratch(int M) {
  return static_cast<int64_t>(M) * blocks * static_cast<int64_t>(sizeof(double));
}

void ops::muon_update(Context &gpu, void *weight, float *master, const void *direction, const float *step, int rows,
                      int columns, float rate, float weight_decay) {
  check_that(gpu.dtype == GPT2_BF16 || weight == master,
             "weight and master to be the same memory, as they are in fp32 and tf32");
  const Matrix matrix = matrix_of(rows, columns, weight, master, direction);
  with_element_type(gpu, [&](auto element) {
    using W = decltype(element);
    with_flag(rows > columns, [&](auto transposes) {
      update_kernel<transposes><<<tiles_of(rows, columns), threads, 0, gpu.stream>>>(
          static_cast<W *>(weight), master, static_cast<const W *>(direction), step, matrix, rate, weight_decay);
    });
  });
}

}  // namespace gpt2
