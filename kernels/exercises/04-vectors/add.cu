// Add two vectors, four elements per thread.
//
// A float4 is four floats, x, y, z and w, which one instruction reads or writes. Its address must be a multiple of 16 bytes:
// reinterpret_cast<const float4 *>(a)[i] is the elements 4i to 4i + 3 of a. Use it where all three tensors allow it (`whole`) and four
// elements are left; elsewhere go one by one. The card launches one thread for each four elements.
// Chapter: kernels/course/residual.
__device__ bool is_aligned(const void *pointer) { return reinterpret_cast<size_t>(pointer) % 16 == 0; }

__global__ void add(float *out, const float *a, const float *b, long long count) {
  const long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  const bool whole = is_aligned(out) && is_aligned(a) && is_aligned(b) && 4 * i + 3 < count;
  // Your code begins here.

  // It ends here.
}
