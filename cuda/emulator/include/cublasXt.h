// cuBLASXt's sgemm, computed by cuBLAS's. Operands in host memory are in the emulator's table during the call.
#pragma once

#include "cublas_v2.h"

typedef cublasHandle_t cublasXtHandle_t;
#define cublasXtCreate cublasCreate
#define cublasXtDestroy cublasDestroy
inline cublasStatus_t cublasXtDeviceSelect(cublasXtHandle_t, int, int *) { return CUBLAS_STATUS_SUCCESS; }

GPT2_INLINE cublasStatus_t cublasXtSgemm(cublasXtHandle_t handle, cublasOperation_t a_op, cublasOperation_t b_op, size_t m, size_t n,
                                         size_t k, const float *alpha, const float *a, size_t lda, const float *b, size_t ldb,
                                         const float *beta, float *c, size_t ldc) {
  struct Lent {
    Lent(const float *begin, size_t elements) : begin(gpt2_emulator::find(begin) ? nullptr : begin) {
      if (this->begin) gpt2_emulator::insert(begin, 4 * elements, gpt2_emulator::Kind::pinned, 4, "");
    }
    ~Lent() {
      if (begin) gpt2_emulator::erase(begin);
    }
    const float *begin;
  };
  const Lent lent_a(a, lda * (a_op == CUBLAS_OP_N ? k : m)), lent_b(b, ldb * (b_op == CUBLAS_OP_N ? n : k)), lent_c(c, ldc * n);
  return cublasSgemm(handle, a_op, b_op, int(m), int(n), int(k), alpha, a, int(lda), b, int(ldb), beta, c, int(ldc));
}
