// The functions of cuBLAS that run on a CPU (cpu/emulator/blas.cpp): matmuls, vector operations and copies.
#pragma once

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "cuda_runtime.h"
#include "library_types.h"

#define CUBLAS_API_H_
#define CUBLAS_VER_MAJOR 13

#define GPT2_STATUSES(ROW)                                                                                                    \
  ROW(SUCCESS, 0) ROW(NOT_INITIALIZED, 1) ROW(ALLOC_FAILED, 3) ROW(INVALID_VALUE, 7) ROW(ARCH_MISMATCH, 8)                    \
  ROW(MAPPING_ERROR, 11) ROW(EXECUTION_FAILED, 13) ROW(INTERNAL_ERROR, 14) ROW(NOT_SUPPORTED, 15) ROW(LICENSE_ERROR, 16)
#define GPT2_ROW(name, code) CUBLAS_STATUS_##name = code,
enum cublasStatus_t { GPT2_STATUSES(GPT2_ROW) };
#undef GPT2_ROW
enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C };
enum cublasPointerMode_t { CUBLAS_POINTER_MODE_HOST, CUBLAS_POINTER_MODE_DEVICE };
enum cublasMath_t { CUBLAS_DEFAULT_MATH, CUBLAS_TENSOR_OP_MATH, CUBLAS_PEDANTIC_MATH, CUBLAS_TF32_TENSOR_OP_MATH };
enum cublasGemmAlgo_t { CUBLAS_GEMM_DFALT = -1, CUBLAS_GEMM_DEFAULT = -1, CUBLAS_GEMM_ALGO0, CUBLAS_GEMM_DEFAULT_TENSOR_OP = 99 };
enum cublasComputeType_t {
  CUBLAS_COMPUTE_16F = 64, CUBLAS_COMPUTE_16F_PEDANTIC, CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_32F_PEDANTIC,
  CUBLAS_COMPUTE_64F, CUBLAS_COMPUTE_64F_PEDANTIC, CUBLAS_COMPUTE_32I, CUBLAS_COMPUTE_32F_FAST_16F = 74,
  CUBLAS_COMPUTE_32F_FAST_16BF, CUBLAS_COMPUTE_32F_FAST_TF32 = 77
};
typedef struct cublasContext *cublasHandle_t;

const char *cublasGetStatusName(cublasStatus_t status);
#define cublasGetStatusString cublasGetStatusName
inline cublasStatus_t cublasCreate(cublasHandle_t *handle) { return *handle = cublasHandle_t(1), CUBLAS_STATUS_SUCCESS; }
#define GPT2_BLAS_NOTHING(name) \
  template <class... Any>       \
  cublasStatus_t name(cublasHandle_t handle, const Any &...) { return handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED; }
GPT2_BLAS_NOTHING(cublasDestroy) GPT2_BLAS_NOTHING(cublasSetStream) GPT2_BLAS_NOTHING(cublasSetMathMode)
GPT2_BLAS_NOTHING(cublasSetPointerMode) GPT2_BLAS_NOTHING(cublasSetWorkspace)

// Copies between host and device: a vector with a stride in elements, a column-major matrix.
#define GPT2_BLAS_COPIES(direction, kind)                                                                                      \
  GPT2_INLINE cublasStatus_t cublas##direction##Matrix(int rows, int columns, int bytes, const void *from, int from_leading,   \
                                                       void *to, int to_leading) {                                             \
    if (rows < 0 || columns < 0 || bytes < 1 || from_leading < 1 || to_leading < 1) return CUBLAS_STATUS_INVALID_VALUE;        \
    const auto size = static_cast<size_t>(bytes);                                                                              \
    const auto error = cudaMemcpy2D(to, to_leading * size, from, from_leading * size, rows * size, columns, kind);             \
    return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_MAPPING_ERROR;                                         \
  }                                                                                                                            \
  GPT2_INLINE cublasStatus_t cublas##direction##Vector(int n, int bytes, const void *from, int from_step, void *to, int to_step) { \
    return cublas##direction##Matrix(1, n, bytes, from, from_step, to, to_step);                                               \
  }
GPT2_BLAS_COPIES(Set, cudaMemcpyHostToDevice) GPT2_BLAS_COPIES(Get, cudaMemcpyDeviceToHost)

namespace gpt2_emulator {

// A column-major matrix, or a batch of these. `leading`: elements from column to column; `stride`: from matrix to matrix.
struct Matrix {
  const void *data;
  cudaDataType_t type;
  int leading;
  long long stride;
};
// c = alpha op(a) op(b) + beta c: op(a) is [m, k], op(b) [k, n]. `sum`: type of sums, alpha and beta; `count`: matrices in a batch.
struct Gemm {
  cublasOperation_t a_op, b_op;
  int m, n, k;
  const void *alpha, *beta;
  Matrix a, b, c;
  cudaDataType_t sum;
  int count;
};
cublasStatus_t gemm(cublasHandle_t handle, const Gemm &gemm);

enum class Vectors { axpy, dot, nrm2, scal };
// An operation on vectors of n elements of one type. `scalar` points to alpha (axpy, scal) or to the result (dot, nrm2).
cublasStatus_t vectors(cublasHandle_t handle, Vectors what, cudaDataType_t type, int n, const void *scalar, const void *x,
                       int x_step, const void *y, int y_step);

inline cudaDataType_t sum_type(cublasComputeType_t compute) {
  if (compute == CUBLAS_COMPUTE_32I) return CUDA_R_32I;
  if (compute == CUBLAS_COMPUTE_64F || compute == CUBLAS_COMPUTE_64F_PEDANTIC) return CUDA_R_64F;
  return compute <= CUBLAS_COMPUTE_16F_PEDANTIC ? CUDA_R_16F : CUDA_R_32F;
}
// Older programs pass the data type of the sums in place of a compute type.
inline cudaDataType_t sum_type(cudaDataType_t type) { return type; }

}  // namespace gpt2_emulator

// The functions of cuBLAS, grouped by the type of their operands. They are inlined, so that reports of defects name the user's line.
#define GPT2_BLAS(name) GPT2_INLINE cublasStatus_t cublas##name
#define GPT2_BLAS_GEMM(letter, T, TYPE)                                                                                        \
  GPT2_BLAS(letter##gemmStridedBatched)(cublasHandle_t handle, cublasOperation_t a_op, cublasOperation_t b_op, int m, int n,   \
                                        int k, const T *alpha, const T *a, int lda, long long as, const T *b, int ldb,         \
                                        long long bs, const T *beta, T *c, int ldc, long long cs, int count) {                 \
    return gpt2_emulator::gemm(handle, {a_op, b_op, m, n, k, alpha, beta, {a, TYPE, lda, as}, {b, TYPE, ldb, bs},              \
                                        {c, TYPE, ldc, cs}, TYPE, count});                                                     \
  }                                                                                                                            \
  GPT2_BLAS(letter##gemm)(cublasHandle_t handle, cublasOperation_t a_op, cublasOperation_t b_op, int m, int n, int k,          \
                          const T *alpha, const T *a, int lda, const T *b, int ldb, const T *beta, T *c, int ldc) {            \
    return cublas##letter##gemmStridedBatched(handle, a_op, b_op, m, n, k, alpha, a, lda, 0, b, ldb, 0, beta, c, ldc, 0, 1);   \
  }
// gemv as a gemm of x, a matrix of one row, and the matrix: the strides of x and y become leading dimensions.
#define GPT2_BLAS_VECTORS(letter, T, TYPE)                                                                                     \
  GPT2_BLAS(letter##gemv)(cublasHandle_t handle, cublasOperation_t op, int m, int n, const T *alpha, const T *a, int lda,      \
                          const T *x, int x_step, const T *beta, T *y, int y_step) {                                           \
    const bool is_plain = op == CUBLAS_OP_N;                                                                                   \
    return cublas##letter##gemm(handle, CUBLAS_OP_N, is_plain ? CUBLAS_OP_T : CUBLAS_OP_N, 1, is_plain ? m : n,                \
                                is_plain ? n : m, alpha, x, x_step, a, lda, beta, y, y_step);                                  \
  }                                                                                                                            \
  GPT2_BLAS(letter##axpy)(cublasHandle_t handle, int n, const T *alpha, const T *x, int x_step, T *y, int y_step) {            \
    return gpt2_emulator::vectors(handle, gpt2_emulator::Vectors::axpy, TYPE, n, alpha, x, x_step, y, y_step);                 \
  }                                                                                                                            \
  GPT2_BLAS(letter##dot)(cublasHandle_t handle, int n, const T *x, int x_step, const T *y, int y_step, T *result) {            \
    return gpt2_emulator::vectors(handle, gpt2_emulator::Vectors::dot, TYPE, n, result, x, x_step, y, y_step);                 \
  }                                                                                                                            \
  GPT2_BLAS(letter##nrm2)(cublasHandle_t handle, int n, const T *x, int x_step, T *result) {                                   \
    return gpt2_emulator::vectors(handle, gpt2_emulator::Vectors::nrm2, TYPE, n, result, x, x_step, x, x_step);                \
  }                                                                                                                            \
  GPT2_BLAS(letter##scal)(cublasHandle_t handle, int n, const T *alpha, T *x, int x_step) {                                    \
    return gpt2_emulator::vectors(handle, gpt2_emulator::Vectors::scal, TYPE, n, alpha, x, x_step, x, x_step);                 \
  }
GPT2_BLAS_GEMM(H, __half, CUDA_R_16F) GPT2_BLAS_GEMM(S, float, CUDA_R_32F) GPT2_BLAS_GEMM(D, double, CUDA_R_64F)
GPT2_BLAS_VECTORS(S, float, CUDA_R_32F) GPT2_BLAS_VECTORS(D, double, CUDA_R_64F)

template <class Compute>
GPT2_INLINE cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t a_op, cublasOperation_t b_op, int m,
                                                      int n, int k, const void *alpha, const void *a, cudaDataType_t at, int lda,
                                                      long long as, const void *b, cudaDataType_t bt, int ldb, long long bs,
                                                      const void *beta, void *c, cudaDataType_t ct, int ldc, long long cs,
                                                      int count, Compute compute, cublasGemmAlgo_t) {
  return gpt2_emulator::gemm(handle, {a_op, b_op, m, n, k, alpha, beta, {a, at, lda, as}, {b, bt, ldb, bs}, {c, ct, ldc, cs},
                                      gpt2_emulator::sum_type(compute), count});
}
template <class Compute>
GPT2_INLINE cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t a_op, cublasOperation_t b_op, int m, int n, int k,
                                        const void *alpha, const void *a, cudaDataType_t at, int lda, const void *b,
                                        cudaDataType_t bt, int ldb, const void *beta, void *c, cudaDataType_t ct, int ldc,
                                        Compute compute, cublasGemmAlgo_t algorithm) {
  return cublasGemmStridedBatchedEx(handle, a_op, b_op, m, n, k, alpha, a, at, lda, 0, b, bt, ldb, 0, beta, c, ct, ldc, 0, 1,
                                    compute, algorithm);
}
