// cuBLAS's matmuls and vector operations (emulator/include/cublas_v2.h) for programs on a CPU. Matmuls run in blocks on all cores, with
// fp32 sums for the compute types fp16 and fp32, else fp64. Vector operations sum in fp64.
#define GPT2_PROGRAM
#include "../../emulator/kernel.h"

#include "../../emulator/include/cublas_v2.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "repeats.h"

#if defined(__x86_64__) && !defined(__clang__)
#define GPT2_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define GPT2_CLONES
#endif

namespace gpt2_emulator {

namespace {

#define GPT2_TYPES(ROW)                                                                                  \
  ROW(CUDA_R_32F, float) ROW(CUDA_R_64F, double) ROW(CUDA_R_16F, __half) ROW(CUDA_R_16BF, __nv_bfloat16) \
  ROW(CUDA_R_8I, int8_t) ROW(CUDA_R_32I, int)

// Calls visit with `data` as a pointer to the C++ type of `type`, and returns the result; 0 for an unsupported type.
template <class Visit>
double visited(cudaDataType_t type, const void *data, const Visit &visit) {
#define GPT2_ROW(name, T) \
  if (type == name) return visit(static_cast<T *>(const_cast<void *>(data)));
  GPT2_TYPES(GPT2_ROW)
#undef GPT2_ROW
  return 0;
}
size_t bytes_of(cudaDataType_t type) {
  return static_cast<size_t>(visited(type, nullptr, [](auto *data) { return sizeof *data; }));
}
double load(cudaDataType_t type, const void *data, int64_t i) {
  return visited(type, data, [=](auto *from) { return double(from[i]); });
}
void store(cudaDataType_t type, const void *data, int64_t i, double value) {
  visited(type, data, [=](auto *to) { return to[i] = std::decay_t<decltype(*to)>(value), 0; });
}

// Whether an operand of `elements` elements is in one live allocation; if not, reports a defect.
bool is_operand(const char *what, const void *data, cudaDataType_t type, long long elements, const void *caller) {
  const Allocation *found = find(data);
  const size_t bytes = elements * bytes_of(type), rest = found ? found->begin + found->bytes - reinterpret_cast<uintptr_t>(data) : 0;
  std::string text = std::string("cuBLAS's operand ") + what;
  if (!found) text += " is not memory of the device";
  else if (!found->is_live) text += " was freed";
  else if (bytes <= rest) return true;
  else text += " has " + std::to_string(bytes) + " bytes by its sizes, but its allocation only " + std::to_string(rest);
  report(text.c_str(), caller);
  result(cudaErrorIllegalAddress);
  return false;
}

template <class T>
using Vector __attribute__((vector_size(64))) = T;
// A block of sums has 8 x 256 elements; a panel of b has the columns that fill two vectors of 64 bytes.
constexpr int block_lines = 8, block_columns = 256;
template <class T>
constexpr int panel_columns = 128 / sizeof(T);

// sums[lines, columns] = the transpose of a[k, lines] times b[k, columns], a panel of b at a time, with the panel's sums in registers.
template <class T>
GPT2_CLONES void product(const T *a, const T *b, int columns, int k, T (&sums)[block_lines][block_columns]) {
  for (int first = 0; first < columns; first += panel_columns<T>) {
    Vector<T> panel[block_lines][2] = {};
    for (int i = 0; i < k; i++, b += panel_columns<T>) {
      Vector<T> row[2];
      std::memcpy(row, b, sizeof row);
#pragma GCC unroll 8
      for (int line = 0; line < block_lines; line++) {
        panel[line][0] += a[i * block_lines + line] * row[0];
        panel[line][1] += a[i * block_lines + line] * row[1];
      }
    }
    for (int line = 0; line < block_lines; line++) std::memcpy(sums[line] + first, panel[line], sizeof panel[line]);
  }
}

// Copies matrix number `batch`, or its transpose, to the layout [lines / panel, steps, panel], padded with zeros.
template <class T>
std::vector<T> converted(const Matrix &from, int batch, bool is_transposed, int lines, int64_t steps, int panel) {
  std::vector<T> to(size_t((lines + panel - 1) / panel * panel) * steps);
  visited(from.type, from.data, [&](auto *data) {
    for (int64_t line = 0; line < lines; line++) {
      for (int64_t i = 0; i < steps; i++) {
        to[(line / panel * steps + i) * panel + line % panel] =
            T(data[batch * from.stride + (is_transposed ? i + line * from.leading : line + i * from.leading)]);
      }
    }
    return 0;
  });
  return to;
}

template <class T>
void multiply(gpt2::ThreadPool &pool, const Gemm &gemm, int batch, double alpha, double beta) {
  const auto &[a_op, b_op, m, n, k, alpha_at, beta_at, a, b, c, sum, count] = gemm;
  const std::vector<T> lefts = converted<T>(a, batch, a_op != CUBLAS_OP_N, m, k, block_lines),
                       rights = converted<T>(b, batch, b_op == CUBLAS_OP_N, n, k, panel_columns<T>);
  const int64_t across = (n + block_columns - 1) / block_columns;
  pool.each_free((m + block_lines - 1) / block_lines * across, [&, m = m, n = n, k = k, c = c](int64_t index, int) {
    alignas(64) T sums[block_lines][block_columns];
    const int first = int(index / across) * block_lines, left = int(index % across) * block_columns, columns = std::min(block_columns, n - left);
    product(lefts.data() + size_t(first) * k, rights.data() + size_t(left) * k, columns, k, sums);
    for (int column = 0; column < columns; column++) {
      for (int row = first; row < std::min(first + block_lines, m); row++) {
        const int64_t at = batch * c.stride + row + int64_t{left + column} * c.leading;
        // If beta is 0, the old value of c is not read: it may be NaN.
        store(c.type, c.data, at, alpha * double(sums[row - first][column]) + (beta == 0 ? 0 : beta * load(c.type, c.data, at)));
      }
    }
  });
}

}  // namespace

cublasStatus_t gemm(cublasHandle_t handle, const Gemm &gemm) {
  const void *caller = GPT2_CALLER;
  const OpenMemory open(uint64_t(std::max(gemm.m, 0)) * std::max(gemm.n, 0));
  // The pool is never destroyed, because destructors of the program may still multiply.
  static gpt2::ThreadPool &pool = *new gpt2::ThreadPool(gpt2::processor_count());
  const auto &[a_op, b_op, m, n, k, alpha_at, beta_at, a, b, c, sum, count] = gemm;
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  const bool a_plain = a_op == CUBLAS_OP_N, b_plain = b_op == CUBLAS_OP_N;
  const int a_rows = a_plain ? m : k, b_rows = b_plain ? k : n;
  const bool is_right = a.leading >= std::max(1, a_rows) && b.leading >= std::max(1, b_rows) && c.leading >= std::max(1, m);
  if (m < 0 || n < 0 || k < 0 || count < 0 || !is_right || !alpha_at || !beta_at) return CUBLAS_STATUS_INVALID_VALUE;
  for (const cudaDataType_t type : {a.type, b.type, c.type, sum}) {
    if (bytes_of(type) == 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (m == 0 || n == 0 || count == 0) return CUBLAS_STATUS_SUCCESS;
  const auto is_usable = [&, count = count](const char *name, const Matrix &matrix, int height, int width) {
    const long long last = (count - 1) * matrix.stride + (width - 1ll) * matrix.leading + height;
    return is_operand(name, matrix.data, matrix.type, width > 0 && height > 0 ? last : 0, caller);
  };
  if (!is_usable("A", a, a_rows, a_plain ? k : m) || !is_usable("B", b, b_rows, b_plain ? n : k) || !is_usable("C", c, m, n)) {
    return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  const double alpha = load(sum, alpha_at, 0), beta = load(sum, beta_at, 0);
  // A repeated call is skipped like a repeated launch (repeats.h), with these words as its arguments.
  std::vector<uint64_t> words{bits_of(a_op), bits_of(b_op), bits_of(m), bits_of(n), bits_of(k), bits_of(sum), bits_of(count), bits_of(alpha), bits_of(beta)};
  for (const Matrix &each : {a, b, c}) words.insert(words.end(), {bits_of(each.data), bits_of(each.type), bits_of(each.leading), bits_of(each.stride)});
  Launch launch;
  launch.kernel = "cuBLAS";
  launch.arguments = words.data();
  launch.argument_bytes = words.size() * sizeof words[0];
  gpt2::emulator::Repeat repeat(launch, pool, settings.every_launch, double(m) * n * count, 2.0 * m * n * k * count);
  if (repeat.restore()) return CUBLAS_STATUS_SUCCESS;
  for (int batch = 0; batch < count; batch++) {
    if (sum == CUDA_R_32F || sum == CUDA_R_16F) multiply<float>(pool, gemm, batch, alpha, beta);
    else multiply<double>(pool, gemm, batch, alpha, beta);
    for (int64_t column = 0; column < n; column++) {
      written(static_cast<const char *>(c.data) + (batch * c.stride + column * c.leading) * bytes_of(c.type), m * bytes_of(c.type));
    }
  }
  repeat.record(true);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t vectors(cublasHandle_t handle, Vectors what, cudaDataType_t type, int n, const void *scalar, const void *x,
                       int x_step, const void *y, int y_step) {
  const void *caller = GPT2_CALLER;
  const OpenMemory open(uint64_t(std::max(n, 0)));
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  const auto elements = [&](int step) { return n > 0 ? (n - 1ll) * std::abs(step) + 1 : 0; };
  if (n > 0 && (!is_operand("x", x, type, elements(x_step), caller) || !is_operand("y", y, type, elements(y_step), caller))) {
    return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  const bool changes = what == Vectors::axpy || what == Vectors::scal;
  double sum = 0;
  for (int64_t i = 0; i < n; i++) {
    const int64_t at_x = (x_step < 0 ? i - n + 1 : i) * x_step, at_y = (y_step < 0 ? i - n + 1 : i) * y_step;
    const double left = load(type, x, at_x), right = load(type, y, at_y);
    if (changes) store(type, y, at_y, load(type, scalar, 0) * left + (what == Vectors::axpy ? right : 0));
    else sum += left * right;
  }
  if (!changes) store(type, scalar, 0, what == Vectors::nrm2 ? std::sqrt(sum) : sum);
  written(changes ? y : scalar, (changes ? elements(y_step) : 1) * bytes_of(type));
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace gpt2_emulator

const char *cublasGetStatusName(cublasStatus_t status) {
#define GPT2_ROW(name, code) \
  if (status == code) return "CUBLAS_STATUS_" #name;
  GPT2_STATUSES(GPT2_ROW)
  return "CUBLAS_STATUS_UNKNOWN";
}
