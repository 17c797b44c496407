// Encodes the tensor maps of hopper.cuh, which TMA reads, by the driver function cuTensorMapEncodeTiled.
#include "hopper.cuh"

namespace gpt2::sm90 {

namespace {

CUtensorMap encode(const void *memory, int dimensions, const cuuint64_t *sizes,
                   const cuuint64_t *strides, const cuuint32_t *box,
                   CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                   CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_128B) {
  static const auto encode_tiled = driver_function<decltype(&cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled");
  const cuuint32_t steps[4] = {1, 1, 1, 1};
  CUtensorMap map{};
  const CUresult result =
      !encode_tiled
          ? CUDA_ERROR_NOT_FOUND
          : encode_tiled(&map, type, dimensions, const_cast<void *>(memory), sizes, strides, box, steps,
                         CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                         CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  // The driver API and the runtime API use the same error numbers.
  GPT2_TRY(static_cast<cudaError_t>(result));
  return map;
}

}  // namespace

CUtensorMap matrix_map(const void *matrix, int64_t inner, int64_t lines, int64_t stride,
                       int box_lines, int box_inner) {
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(inner), static_cast<cuuint64_t>(lines)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(stride) * sizeof(bf16)};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(box_inner), static_cast<cuuint32_t>(box_lines)};
  return encode(matrix, 2, sizes, strides, box);
}

CUtensorMap fp8_matrix_map(const void *matrix, int64_t inner, int64_t lines, int64_t stride,
                           int box_lines, int box_inner) {
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(inner), static_cast<cuuint64_t>(lines)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(stride)};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(box_inner), static_cast<cuuint32_t>(box_lines)};
  return encode(matrix, 2, sizes, strides, box, CU_TENSOR_MAP_DATA_TYPE_UINT8,
                box_inner == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B);
}

CUtensorMap matrices_map(const void *tensor, int64_t inner, int64_t lines, int64_t matrices,
                         int box_lines) {
  const cuuint64_t line = static_cast<cuuint64_t>(inner) * sizeof(bf16);
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(inner), static_cast<cuuint64_t>(lines),
                              static_cast<cuuint64_t>(matrices)};
  const cuuint64_t strides[] = {line, line * static_cast<cuuint64_t>(lines)};
  const cuuint32_t box[] = {64, static_cast<cuuint32_t>(box_lines), 1};
  return encode(tensor, 3, sizes, strides, box);
}

CUtensorMap heads_map(const void *tensor, int heads, int HS, int64_t T, int64_t B,
                      int64_t stride, int box_lines) {
  const int halves = HS / 64;
  const cuuint64_t line = static_cast<cuuint64_t>(stride) * sizeof(bf16);
  const cuuint64_t sizes[] = {64, static_cast<cuuint64_t>(T), static_cast<cuuint64_t>(heads * halves),
                              static_cast<cuuint64_t>(B)};
  const cuuint64_t strides[] = {line, 64 * sizeof(bf16), line * static_cast<cuuint64_t>(T)};
  const cuuint32_t box[] = {64, static_cast<cuuint32_t>(box_lines), static_cast<cuuint32_t>(halves), 1};
  return encode(tensor, 4, sizes, strides, box);
}

}  // namespace gpt2::sm90
