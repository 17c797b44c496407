// cuBLAS's products and vector operations for programs on a CPU, by plain loops on all cores. Sums are fp32, or double for
// fp64 and integers.
#define GPT2_PROGRAM
#include "../../emulator/kernel.h"
#include "../../emulator/include/cublas_v2.h"
#include "../../emulator/include/cuda_bf16.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "../../runtime/threads.h"

#if defined(__x86_64__) && !defined(__clang__)
#define GPT2_FAST __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), optimize("O3")))
#else
#define GPT2_FAST
#endif

struct cublasContext {};

namespace gpt2_emulator {

namespace {

// Calls visit with a null pointer to the type. False for a type that is not supported.
template <class Visit>
bool with_type(cudaDataType_t type, const Visit &visit) {
  switch (type) {
    case CUDA_R_32F: return visit(static_cast<float *>(nullptr)), true;
    case CUDA_R_64F: return visit(static_cast<double *>(nullptr)), true;
    case CUDA_R_16F: return visit(static_cast<__half *>(nullptr)), true;
    case CUDA_R_16BF: return visit(static_cast<__nv_bfloat16 *>(nullptr)), true;
    case CUDA_R_8I: return visit(static_cast<signed char *>(nullptr)), true;
    case CUDA_R_32I: return visit(static_cast<int *>(nullptr)), true;
    default: return false;
  }
}

size_t bytes_of(cudaDataType_t type) {
  size_t bytes = 0;
  with_type(type, [&](auto *none) { bytes = sizeof *none; });
  return bytes;
}

template <class Sum>
Sum number(cudaDataType_t type, const void *value) {
  Sum result{};
  with_type(type, [&](auto *none) { result = static_cast<Sum>(*static_cast<decltype(none)>(const_cast<void *>(value))); });
  return result;
}

// Whether the bytes are in one live allocation; if not, reports a defect.
bool is_operand(const char *what, const void *data, size_t bytes, const void *caller) {
  const Allocation *found = find(data);
  std::string text = std::string("cuBLAS's operand ") + what;
  if (!found) {
    text += " is not memory of the device";
  } else if (!found->is_live) {
    text += " was freed";
  } else if (reinterpret_cast<uintptr_t>(data) - found->begin + bytes > found->bytes) {
    const size_t rest = found->begin + found->bytes - reinterpret_cast<uintptr_t>(data);
    text += " has " + std::to_string(bytes) + " bytes by its sizes, but its allocation only " + std::to_string(rest);
  } else {
    return true;
  }
  report(text.c_str(), caller);
  result(cudaErrorIllegalAddress);
  return false;
}

// The threads, which are never joined: destructors of the program may multiply.
gpt2::ThreadPool &pool() {
  static gpt2::ThreadPool &made = *new gpt2::ThreadPool(gpt2::processor_count());
  return made;
}

constexpr int rows = 4, columns = 32;

// sums = a b, of `rows` rows of a [rows, k] and `columns` columns of b [k, columns].
template <class Sum>
GPT2_FAST void tile(const Sum *a, const Sum *b, int k, Sum *sums) {
  Sum made[rows][columns] = {};
  for (int i = 0; i < k; i++) {
    for (int row = 0; row < rows; row++) {
      for (int column = 0; column < columns; column++) made[row][column] += a[row * k + i] * b[i * columns + column];
    }
  }
  for (int i = 0; i < rows * columns; i++) sums[i] = made[i / columns][i % columns];
}
template GPT2_FAST void tile<float>(const float *, const float *, int, float *);
template GPT2_FAST void tile<double>(const double *, const double *, int, double *);

// One operand in panels of `width` rows (of op(a)) or columns (of op(b)), each [k, width] or [width, k]; the rest is 0.
template <class Sum>
std::vector<Sum> packed(const Matrix &from, int64_t batch, bool by_lines, int count, int k, int width, bool k_first) {
  const int panels = (count + width - 1) / width;
  std::vector<Sum> to(size_t(panels) * width * k);
  with_type(from.type, [&](auto *none) {
    const auto *data = static_cast<decltype(none)>(const_cast<void *>(from.data)) + batch * from.stride;
    for (int line = 0; line < count; line++) {
      Sum *panel = to.data() + size_t(line / width) * width * k;
      for (int i = 0; i < k; i++) {
        const size_t source = by_lines ? line + size_t(i) * from.leading : i + size_t(line) * from.leading;
        panel[k_first ? size_t(i) * width + line % width : size_t(line % width) * k + i] = static_cast<Sum>(data[source]);
      }
    }
  });
  return to;
}

template <class Sum>
void multiply(const Gemm &gemm) {
  const auto [a_op, b_op, m, n, k, alpha_at, beta_at, a, b, c, sum, count] = gemm;
  const Sum alpha = number<Sum>(sum, alpha_at), beta = number<Sum>(sum, beta_at);
  for (int batch = 0; batch < count; batch++) {
    const std::vector<Sum> lefts = packed<Sum>(a, batch, a_op == CUBLAS_OP_N, m, k, rows, false);
    const std::vector<Sum> rights = packed<Sum>(b, batch, b_op != CUBLAS_OP_N, n, k, columns, true);
    with_type(c.type, [&, m = m, n = n, k = k, c = c](auto *none) {
      using C = std::remove_pointer_t<decltype(none)>;
      C *out = static_cast<C *>(const_cast<void *>(c.data)) + batch * c.stride;
      pool().each_free((m + rows - 1) / rows, [&](int64_t panel, int) {
        Sum sums[rows * columns];
        for (int column = 0; column < n; column += columns) {
          tile<Sum>(lefts.data() + panel * rows * k, rights.data() + size_t(column) * k, k, sums);
          for (int row = int(panel) * rows; row < std::min(m, int(panel + 1) * rows); row++) {
            for (int i = column; i < std::min(n, column + columns); i++) {
              C &place = out[row + size_t(i) * c.leading];
              const Sum made = alpha * sums[row % rows * columns + i - column];
              // With a beta of 0 the old value does not count, even if it is no number.
              place = C(beta == 0 ? made : made + beta * static_cast<Sum>(place));
            }
          }
        }
      });
    });
  }
}

}  // namespace

cublasStatus_t gemm(cublasHandle_t handle, const Gemm &gemm, const void *) {
  const void *caller = GPT2_CALLER;
  const auto &[a_op, b_op, m, n, k, alpha, beta, a, b, c, sum, count] = gemm;
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  const int a_rows = a_op == CUBLAS_OP_N ? m : k, b_rows = b_op == CUBLAS_OP_N ? k : n;
  const bool is_right = a.leading >= std::max(1, a_rows) && b.leading >= std::max(1, b_rows) && c.leading >= std::max(1, m);
  if (m < 0 || n < 0 || k < 0 || count < 0 || !is_right || !alpha || !beta) return CUBLAS_STATUS_INVALID_VALUE;
  for (const cudaDataType_t type : {a.type, b.type, c.type, sum}) {
    if (bytes_of(type) == 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (m == 0 || n == 0 || count == 0) return CUBLAS_STATUS_SUCCESS;
  const auto bytes = [&, count = count](const Matrix &matrix, int height, int width) {
    const long long last = (count - 1) * matrix.stride + (width - 1ll) * matrix.leading + height;
    return width > 0 && height > 0 ? static_cast<size_t>(last) * bytes_of(matrix.type) : 0;
  };
  const bool are_usable = is_operand("A", a.data, bytes(a, a_rows, a_op == CUBLAS_OP_N ? k : m), caller) &&
                          is_operand("B", b.data, bytes(b, b_rows, b_op == CUBLAS_OP_N ? n : k), caller) &&
                          is_operand("C", c.data, bytes(c, m, n), caller);
  if (!are_usable) return CUBLAS_STATUS_EXECUTION_FAILED;
  if (sum == CUDA_R_64F || sum == CUDA_R_32I) multiply<double>(gemm);
  else multiply<float>(gemm);
  for (int batch = 0; batch < count; batch++) {
    for (int column = 0; column < n; column++) {
      const size_t element = size_t(batch * c.stride) + size_t(column) * c.leading;
      written(static_cast<const char *>(c.data) + element * bytes_of(c.type), m * bytes_of(c.type));
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t vectors(cublasHandle_t handle, Vectors what, cudaDataType_t type, int n, const void *scalar, const void *x,
                       int x_step, const void *y, int y_step, const void *) {
  const void *caller = GPT2_CALLER;
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  const auto bytes = [&](int step) { return n > 0 ? ((n - 1ll) * std::abs(step) + 1) * bytes_of(type) : 0; };
  if (n > 0 && (!is_operand("x", x, bytes(x_step), caller) || !is_operand("y", y, bytes(y_step), caller))) {
    return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  with_type(type, [&](auto *none) {
    using T = std::remove_pointer_t<decltype(none)>;
    const auto place = [&](const void *of, int step, int i) -> T & {
      return static_cast<T *>(const_cast<void *>(of))[int64_t{step < 0 ? i - n + 1 : i} * step];
    };
    double sum = 0;
    for (int i = 0; i < n; i++) {
      T &left = place(x, x_step, i), &right = place(y, y_step, i);
      if (what == Vectors::axpy) right = T(float(number<double>(type, scalar)) == 0 ? right : right + *static_cast<const T *>(scalar) * left);
      else if (what == Vectors::copy) right = left;
      else if (what == Vectors::scal) left = *static_cast<const T *>(scalar) * left;
      else sum += what == Vectors::asum ? std::abs(double(left)) : double(left) * double(right);
    }
    const bool has_result = what == Vectors::dot || what == Vectors::nrm2 || what == Vectors::asum;
    T *result = static_cast<T *>(const_cast<void *>(scalar));
    if (has_result) *result = T(what == Vectors::nrm2 ? std::sqrt(sum) : sum);
    if (has_result && find(result)) written(result, sizeof *result);
  });
  if (n > 0 && (what == Vectors::axpy || what == Vectors::copy || what == Vectors::scal)) written(y, bytes(y_step));
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace gpt2_emulator

const char *cublasGetStatusName(cublasStatus_t status) {
#define GPT2_ROW(name, code) \
  if (status == code) return "CUBLAS_STATUS_" #name;
  GPT2_STATUSES(GPT2_ROW)
#undef GPT2_ROW
  return "CUBLAS_STATUS_UNKNOWN";
}
cublasStatus_t cublasCreate(cublasHandle_t *handle) { return *handle = new cublasContext, CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasDestroy(cublasHandle_t handle) { return delete handle, CUBLAS_STATUS_SUCCESS; }
