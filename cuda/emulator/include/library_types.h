// The element types by which CUDA's libraries name operands.
#pragma once

enum cudaDataType_t {
  CUDA_R_32F, CUDA_R_64F, CUDA_R_16F, CUDA_R_8I, CUDA_C_32F, CUDA_C_64F, CUDA_R_8U = 8, CUDA_R_32I = 10, CUDA_R_16BF = 14,
  CUDA_R_8F_E4M3 = 28, CUDA_R_8F_E5M2
};
typedef cudaDataType_t cudaDataType;
