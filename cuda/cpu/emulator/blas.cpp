// cuBLAS's products and vector operations (emulator/include/cublas_v2.h) for programs on a CPU, by plain loops on all cores. Sums
// are fp32, or double for fp64 and integers.
#define GPT2_PROGRAM
#include "../../emulator/kernel.h"

#include "../../emulator/include/cublas_v2.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "../../runtime/threads.h"

#if defined(__x86_64__) && !defined(__clang__)
#define GPT2_FAST __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define GPT2_FAST
#endif

namespace gpt2_emulator {

namespace {

// Calls visit with a null pointer to the type. Returns the bytes of an element; 0 for a type that is not supported.
template <class Visit>
size_t with_type(cudaDataType_t type, const Visit &visit) {
  const auto done = [&](auto *none) { return visit(none), sizeof *none; };
  switch (type) {
    case CUDA_R_32F: return done(static_cast<float *>(nullptr));
    case CUDA_R_64F: return done(static_cast<double *>(nullptr));
    case CUDA_R_16F: return done(static_cast<__half *>(nullptr));
    case CUDA_R_16BF: return done(static_cast<__nv_bfloat16 *>(nullptr));
    case CUDA_R_8I: return done(static_cast<signed char *>(nullptr));
    case CUDA_R_32I: return done(static_cast<int *>(nullptr));
    default: return 0;
  }
}
size_t bytes_of(cudaDataType_t type) {
  return with_type(type, [](auto *) {});
}

// Whether the elements are in one live allocation; if not, reports a defect.
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

// Its threads are never joined: destructors of the program may multiply.
gpt2::ThreadPool &pool() {
  static gpt2::ThreadPool &made = *new gpt2::ThreadPool(gpt2::processor_count());
  return made;
}

// sums[n] = a[k] b[k, n]
template <class Sum>
GPT2_FAST void product(const Sum *a, const Sum *b, int n, int k, Sum *sums) {
  for (int i = 0; i < k; i++) {
    for (int column = 0; column < n; column++) sums[column] += a[i] * b[size_t(i) * n + column];
  }
}

// A matrix of a batch as [lines, steps], or its transpose.
template <class Sum>
std::vector<Sum> converted(const Matrix &from, int batch, bool is_transposed, int lines, int steps) {
  std::vector<Sum> to(size_t(lines) * steps);
  with_type(from.type, [&](auto *none) {
    const auto *data = static_cast<decltype(none)>(const_cast<void *>(from.data)) + batch * from.stride;
    for (int line = 0; line < lines; line++) {
      for (int i = 0; i < steps; i++) {
        const size_t at = is_transposed ? i + size_t(line) * from.leading : line + size_t(i) * from.leading;
        to[size_t(line) * steps + i] = static_cast<Sum>(data[at]);
      }
    }
  });
  return to;
}

template <class Sum>
void multiply(const Gemm &gemm) {
  const auto &[a_op, b_op, m, n, k, alpha_at, beta_at, a, b, c, sum, count] = gemm;
  Sum alpha{}, beta{};
  with_type(sum, [&, alpha_at = alpha_at, beta_at = beta_at](auto *none) {
    using T = const std::remove_pointer_t<decltype(none)>;
    alpha = static_cast<Sum>(*static_cast<T *>(alpha_at));
    beta = static_cast<Sum>(*static_cast<T *>(beta_at));
  });
  for (int batch = 0; batch < count; batch++) {
    const std::vector<Sum> lefts = converted<Sum>(a, batch, a_op != CUBLAS_OP_N, m, k);
    const std::vector<Sum> rights = converted<Sum>(b, batch, b_op != CUBLAS_OP_N, k, n);
    with_type(c.type, [&, m = m, n = n, k = k, c = c](auto *none) {
      using C = std::remove_pointer_t<decltype(none)>;
      C *out = static_cast<C *>(const_cast<void *>(c.data)) + batch * c.stride;
      pool().each_free(m, [&](int64_t row, int) {
        std::vector<Sum> sums(n);
        product(lefts.data() + row * k, rights.data(), n, k, sums.data());
        for (int column = 0; column < n; column++) {
          C &place = out[row + size_t(column) * c.leading];
          const Sum made = alpha * sums[column];
          // With a beta of 0 the old value does not count, even if it is no number.
          place = C(beta == 0 ? made : made + beta * static_cast<Sum>(place));
        }
      });
      for (int column = 0; column < n; column++) written(out + size_t(column) * c.leading, m * sizeof(C));
    });
  }
}

}  // namespace

cublasStatus_t gemm(cublasHandle_t handle, const Gemm &gemm) {
  const void *caller = GPT2_CALLER;
  const auto &[a_op, b_op, m, n, k, alpha, beta, a, b, c, sum, count] = gemm;
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  const bool a_plain = a_op == CUBLAS_OP_N, b_plain = b_op == CUBLAS_OP_N;
  const int a_rows = a_plain ? m : k, b_rows = b_plain ? k : n;
  const bool is_right = a.leading >= std::max(1, a_rows) && b.leading >= std::max(1, b_rows) && c.leading >= std::max(1, m);
  if (m < 0 || n < 0 || k < 0 || count < 0 || !is_right || !alpha || !beta) return CUBLAS_STATUS_INVALID_VALUE;
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
  if (sum == CUDA_R_64F || sum == CUDA_R_32I) multiply<double>(gemm);
  else multiply<float>(gemm);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t vectors(cublasHandle_t handle, Vectors what, cudaDataType_t type, int n, const void *scalar, const void *x,
                       int x_step, const void *y, int y_step) {
  const void *caller = GPT2_CALLER;
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  const auto elements = [&](int step) { return (n - 1ll) * std::abs(step) + 1; };
  if (n > 0 && (!is_operand("x", x, type, elements(x_step), caller) || !is_operand("y", y, type, elements(y_step), caller))) {
    return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  with_type(type, [&](auto *none) {
    using T = std::remove_pointer_t<decltype(none)>;
    const auto at = [&](const void *of, int64_t step, int i) -> T & {
      return static_cast<T *>(const_cast<void *>(of))[(step < 0 ? i - n + 1 : i) * step];
    };
    T *value = static_cast<T *>(const_cast<void *>(scalar));
    double sum = 0;
    for (int i = 0; i < n; i++) {
      if (what == Vectors::axpy) at(y, y_step, i) = T(at(y, y_step, i) + *value * at(x, x_step, i));
      else if (what == Vectors::scal) at(x, x_step, i) = T(*value * at(x, x_step, i));
      else sum += double(at(x, x_step, i)) * double(at(y, y_step, i));
    }
    if (what == Vectors::axpy || what == Vectors::scal) {
      if (n > 0) written(y, elements(y_step) * sizeof(T));
      return;
    }
    *value = T(what == Vectors::nrm2 ? std::sqrt(sum) : sum);
    if (find(value)) written(value, sizeof(T));
  });
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace gpt2_emulator

const char *cublasGetStatusName(cublasStatus_t status) {
#define GPT2_ROW(name, code) \
  if (status == code) return "CUBLAS_STATUS_" #name;
  GPT2_STATUSES(GPT2_ROW)
  return "CUBLAS_STATUS_UNKNOWN";
}
