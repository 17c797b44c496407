// CUDA's functions, a row each. A kernel has a block of 32 threads, and writes to out the number of wrong rows, then their lines.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math_constants.h>
#include <mma.h>

namespace cg = cooperative_groups;
using namespace nvcuda;

__device__ void wrong(float *out, int line) {
  const int at = atomicAdd(reinterpret_cast<int *>(out), 1);
  if (at < 50) out[1 + at] = line;
}
#define TEST(name) __global__ void name(float *out, const float *in, int n)
// A value that all threads have, and one that thread i has.
#define IS(call, ...) if (double(call) != double(__VA_ARGS__)) wrong(out, __LINE__)
// A function of x in an interval, and of z between 0.4 and 4.3, against doubles X and Z.
#define NEAR(call, expected, from, to, limit)                                                                    \
  {                                                                                                              \
    const int i = threadIdx.x;                                                                                   \
    const float x = float(from + (to - from) * (i + 0.37) / 32), z = i / 8.0f + 0.4f;                            \
    [[maybe_unused]] const double X = x, Z = z;                                                                  \
    const double wanted = expected;                                                                              \
    if (!(fabs(call - wanted) <= limit * fmax(fabs(wanted), 1e-3))) wrong(out, __LINE__);                        \
  }
#define EACH_ROUNDING(X) X(rn, 0) X(rz, 1) X(rd, 2) X(ru, 3)
#define ONE_OF(index, ...) [] { const double values[] = {__VA_ARGS__}; return values[index]; }()

// The functions that C has, too, in fp32 against fp64.
#define SAME(name, from, to) NEAR(name##f(x), name(X), from, to, 6e-7)
#define SAME2(name, from, to) NEAR(name##f(x, z), name(X, Z), from, to, 6e-7)
TEST(functions_of_c) {
  SAME(acos, -.9, .9) SAME(asin, -.9, .9) SAME(atanh, -.9, .9) SAME(asinh, -3, 5) SAME(atan, -3, 5) SAME(cbrt, -3, 5)
  SAME(ceil, -3, 5) SAME(cos, -3, 5) SAME(cosh, -3, 5) SAME(erf, -3, 5) SAME(exp2, -3, 5) SAME(expm1, -3, 5)
  SAME(fabs, -3, 5) SAME(floor, -3, 5) SAME(rint, -3, 5) SAME(round, -3, 5) SAME(sin, -3, 5) SAME(sinh, -3, 5)
  SAME(tan, -1, 1) SAME(tanh, -3, 5) SAME(trunc, -3, 5) SAME(nearbyint, -3, 5) SAME(erfc, -3, 3) SAME(exp, -3, 5)
  SAME(exp10, -3, 5) SAME(lrint, 0, 9) SAME(llrint, 0, 9) SAME(lround, 0, 9) SAME(llround, 0, 9) SAME(logb, 1, 9)
  SAME(j0, 0, 2) SAME(j1, 1, 3) SAME(y0, 1, 3) SAME(y1, 3, 5) SAME(acosh, 1.1, 20) SAME(lgamma, 3, 20)
  SAME(log, 2, 20) SAME(log10, 2, 20) SAME(log1p, 1, 20) SAME(log2, 2, 20) SAME(sqrt, 1, 20) SAME(tgamma, 1, 5)
  SAME(ilogb, 1, 20) SAME2(atan2, 1, 9) SAME2(copysign, 1, 9) SAME2(fdim, 5, 9) SAME2(fmax, 1, 9) SAME2(fmin, 1, 9)
  SAME2(fmod, 1, 9) SAME2(hypot, 1, 9) SAME2(pow, 1, 9) SAME2(remainder, 1, 9) SAME2(nextafter, 1, 9)
  NEAR(fmaf(x, z, 1), fma(X, Z, 1.0), 1, 9, 6e-7) NEAR(ldexpf(x, 2) + scalbnf(x, 2), 8 * X, 1, 9, 6e-7)
  NEAR(([&] { int e; const float f = frexpf(x, &e); return ldexpf(f, e); }()), X, 1, 9, 0)
  NEAR(([&] { float whole; const float f = modff(x, &whole); return f + whole; }()), X, 1, 9, 0)
  NEAR(([&] { float s, c; sincosf(x, &s, &c); return s + 2 * c; }()), sin(X) + 2 * cos(X), -1, 1, 1e-6)
  NEAR(jnf(2, x) + ynf(2, x), jn(2, X) + yn(2, X), 1, 2, 4e-6)
}

// Functions that C lacks, in fp32 and in fp64.
#define BOTH(name, from, to, ...) NEAR(name##f(x), __VA_ARGS__, from, to, 6e-7) NEAR(name(X), __VA_ARGS__, from, to, 1e-12)
#define BOTH_OF(name, arguments, from, to, ...) \
  { const auto call = [](auto x, auto z) { return name arguments; }; NEAR(call(X, Z), __VA_ARGS__, from, to, 1e-12) }   \
  NEAR(name##f arguments, __VA_ARGS__, from, to, 6e-7)
TEST(mathematics) {
  const double pi = 3.14159265358979323846;
  BOTH(rsqrt, .01, 90, 1 / sqrt(X)) BOTH(rcbrt, .01, 90, 1 / cbrt(X)) BOTH(sinpi, -5, 5, sin(pi * X))
  BOTH(cospi, -5, 5, cos(pi * X)) BOTH(erfcx, -2, 5, exp(X * X) * erfc(X)) BOTH(normcdf, -3, 3, .5 + .5 * erf(X / sqrt(2.)))
  BOTH_OF(rhypot, (x, z), 1, 9, 1 / sqrt(X * X + Z * Z))
  BOTH_OF(norm3d, (x, z, 2), 1, 9, sqrt(X * X + Z * Z + 4)) BOTH_OF(rnorm3d, (x, z, 2), 1, 9, 1 / sqrt(X * X + Z * Z + 4))
  BOTH_OF(norm4d, (x, z, 2, 3), 1, 9, sqrt(X * X + Z * Z + 13))
  BOTH_OF(rnorm4d, (x, z, 2, 3), 1, 9, 1 / sqrt(X * X + Z * Z + 13))
  NEAR(erfcx(X), (1 - .5 / pow(X, 2) + .75 / pow(X, 4) - 1.875 / pow(X, 6)) / (X * sqrt(pi)), 25.1, 99, 1e-7)
  NEAR(erf(erfinv(X)), X, -.9999, .9999, 1e-13) NEAR(erfinvf(x), erfinv(X), -.9999, .9999, 6e-7)
  NEAR(erfc(erfcinv(X)), X, 1e-5, 1.9999, 1e-13) NEAR(erfcinvf(x), erfcinv(X), 1e-5, 1.9999, 1e-6)
  NEAR(normcdf(normcdfinv(X)), X, 1e-4, .9999, 1e-13) NEAR(normcdfinvf(x), normcdfinv(X), 1e-4, .9999, 1e-6)
  BOTH(cyl_bessel_i0, 0, .1, 1 + X * X / 4 + pow(X, 4) / 64 + pow(X, 6) / 2304)
  BOTH(cyl_bessel_i1, 0, .1, X / 2 + pow(X, 3) / 16 + pow(X, 5) / 384 + pow(X, 7) / 18432)
  NEAR(cyl_bessel_i0f(x), exp(X) / sqrt(2 * pi * X) * (1 + .125 / X + 9 / 128. / X / X + 75 / 1024. / pow(X, 3)), 40, 60, 2e-6)
  NEAR(([&] { float s, c; sincospif(x, &s, &c); return s + 2 * c; }()), sin(pi * X) + 2 * cos(pi * X), 0, .5, 1e-6)
  NEAR(([&] { float v[] = {x, 2, 3}; return normf(3, v) + rnormf(3, v); }()), sqrt(X * X + 13) + 1 / sqrt(X * X + 13), 1, 9, 6e-7)
  // A GPU's fast functions have a larger error.
  NEAR(__expf(x), exp(X), 1.1, 1.5, 1e-5) NEAR(__exp10f(x), exp10(X), 1.1, 1.5, 1e-5) NEAR(__logf(x), log(X), 1.2, 1.5, 1e-5)
  NEAR(__log2f(x), log2(X), 1.2, 1.5, 1e-5) NEAR(__log10f(x), log10(X), 1.2, 1.5, 1e-5) NEAR(__sinf(x), sin(X), 1.1, 1.5, 1e-5)
  NEAR(__cosf(x), cos(X), .1, 1, 1e-5) NEAR(__tanf(x), tan(X), .1, 1, 1e-5) NEAR(__powf(x, z), pow(X, Z), 1.2, 1.5, 1e-5)
  NEAR(([&] { float s, c; __sincosf(x, &s, &c); return s + 2 * c; }()), sin(X) + 2 * cos(X), -1, 1, 1e-5)
  NEAR(__fdividef(x, z) + fdividef(x, z), 2 * X / Z, 1, 9, 1e-6) NEAR(__saturatef(x), X < 0 ? 0 : X > 1 ? 1 : X, -2, 2, 0)
  NEAR(__frsqrt_rn(x), 1 / sqrt(X), 1, 90, 6e-7)
#define ROUNDED(end, index)                                                                                            \
  NEAR(__fadd_##end(x, z), X + Z, 1, 9, 2e-7) NEAR(__fsub_##end(x, -z), X + Z, 1, 9, 2e-7) NEAR(__fmul_##end(x, z), X * Z, 1, 9, 2e-7)  \
  NEAR(__fdiv_##end(x, z), X / Z, 1, 9, 2e-7) NEAR(__frcp_##end(x), 1 / X, 1, 9, 2e-7) NEAR(__fsqrt_##end(x), sqrt(X), 1, 9, 2e-7)      \
  NEAR(__dadd_##end(X, Z), X + Z, 1, 9, 4e-16) NEAR(__dsub_##end(X, -Z), X + Z, 1, 9, 4e-16) NEAR(__dmul_##end(X, Z), X * Z, 1, 9, 4e-16) \
  NEAR(__ddiv_##end(X, Z), X / Z, 1, 9, 4e-16) NEAR(__drcp_##end(X), 1 / X, 1, 9, 4e-16) NEAR(__dsqrt_##end(X), sqrt(X), 1, 9, 4e-16)   \
  NEAR(__fmaf_##end(x, z, x), X * Z + X, 1, 9, 2e-7) NEAR(__fma_##end(X, Z, X), X * Z + X, 1, 9, 4e-16)                \
  IS(__float_as_uint(__fdiv_##end(1, 3)), ONE_OF(index, 0x3eaaaaab, 0x3eaaaaaa, 0x3eaaaaaa, 0x3eaaaaab));              \
  IS(__float_as_uint(__fadd_##end(1, -1e-9f)), ONE_OF(index, 0x3f800000, 0x3f7fffff, 0x3f7fffff, 0x3f800000));         \
  IS(__fmul_##end(-1.0f - 1e-7f, 1.0f + 1e-7f) < -1.0000002f, ONE_OF(index, 0, 0, 1, 0));                              \
  IS(__double2hiint(__dmul_##end(1 / 3., 3.)), ONE_OF(index, 0x3ff00000, 0x3fefffff, 0x3fefffff, 0x3ff00000));
  EACH_ROUNDING(ROUNDED)
}

TEST(integers) {
  IS(umin(3u, ~0u) + umax(3u, 4u), 7); IS(min(-1, 5u), 5); IS(max(1.5, 1.25f), 1.5);
  IS(__popc(0xf0f0) + __popcll(0xf00000000), 12); IS(__clz(1) * 100 + __clzll(1), 3163); IS(__ffs(8) * 100 + __ffsll(1ll << 40), 441);
  IS(__brev(1), 1u << 31); IS(__brevll(2), 1ull << 62); IS(__mulhi(-2, 3), -1); IS(__umulhi(1u << 31, 6), 3);
  IS(__mul64hi(-2, 3), -1); IS(__umul64hi(1ull << 63, 6), 3); IS(__mul24(-2, 0x1000003), -6); IS(__umul24(0x1000002, 3), 6);
  IS(__sad(-3, 4, 10), 17); IS(__usad(3, 4, 10), 11); IS(__hadd(-3, 0), -2); IS(__rhadd(-3, 0), -1);
  IS(__uhadd(~0u, 1), 1u << 31); IS(__urhadd(2, 3), 3);
  IS(__byte_perm(0x33221100, 0x77665544, 0x7531), 0x77553311); IS(__byte_perm(0x8000, 0, 0x4491), 0x8080);
  IS(__funnelshift_l(1u << 31, 1, 1), 3); IS(__funnelshift_r(1, 3, 33), 1u << 31);
  IS(__funnelshift_lc(5, 1, 40), 5); IS(__funnelshift_rc(5, 7, 40), 7);
  IS(__dp4a(int(0xff020304), 0x02010101, 100), 107); IS(__dp4a(0xff020304u, 0x02010101u, 100u), 619);
  IS(__dp4a(make_char4(1, 2, 3, -4), make_char4(1, 1, 1, 1), 5), 7); IS(__dp2a_lo(0x20003, 0x04030201, 1), 8);
  IS(__dp2a_hi(0x20003, 0x04030201, 1), 18);
#define CONVERTED(end, index)                                                                                          \
  IS(__float2int_##end(-2.5f), ONE_OF(index, -2, -2, -3, -2)); IS(__double2uint_##end(2.5), ONE_OF(index, 2, 2, 2, 3)); \
  IS(__float2ll_##end(2.5f) + __double2ull_##end(3.5), ONE_OF(index, 6, 5, 5, 7));                                     \
  IS(__int2float_##end(16777219), ONE_OF(index, 16777220, 16777218, 16777218, 16777220));                              \
  IS(__ull2float_##end(16777219), ONE_OF(index, 16777220, 16777218, 16777218, 16777220));                              \
  IS(__float_as_uint(__double2float_##end(1 + 1e-9)), ONE_OF(index, 0x3f800000, 0x3f800000, 0x3f800000, 0x3f800001));  \
  IS(__half_as_ushort(__float2half_##end(-1.0001f)), ONE_OF(index, 0xbc00, 0xbc00, 0xbc01, 0xbc00));                   \
  IS(__bfloat16_as_ushort(__float2bfloat16_##end(1.001f)), ONE_OF(index, 0x3f80, 0x3f80, 0x3f80, 0x3f81));             \
  IS(__half2int_##end(__float2half(-2.5f)) + int(__bfloat162uint_##end(__float2bfloat16(3.5f))), ONE_OF(index, 2, 1, 0, 2));
  EACH_ROUNDING(CONVERTED)
  IS(__double_as_longlong(1.5) >> 48, 0x3ff8); IS(__hiloint2double(__double2hiint(1.5), 0), 1.5);
  // Out of range, the nearest integer, and 0 for NaN.
  IS(__float2int_rz(3e9f), 0x7fffffff); IS(__float2uint_rn(-3), 0); IS(__float2int_rn(CUDART_NAN_F), 0);
  IS(__float2ll_rn(CUDART_NAN_F), LLONG_MIN); IS(__double2uint_rz(CUDART_NAN), 1u << 31);
}

#define NARROW_TEST(T, type, pair)                                                                                     \
  TEST(pair##s) {                                                                                                      \
    for (unsigned bits = threadIdx.x; bits < 65536; bits += 32) {                                                      \
      const T each = __ushort_as_##type(bits);                                                                         \
      if (!__hisnan(each)) IS(__##type##_as_ushort(T(float(each))), bits);                                             \
    }                                                                                                                  \
    const unsigned first = __##type##_as_ushort(T(1.0f));                                                              \
    const float step = float(__ushort_as_##type(first + 1)) - 1;                                                       \
    IS(__##type##_as_ushort(T(1 + step / 2)), first); IS(__##type##_as_ushort(T(1 + step / 2 + 1e-6f)), first + 1);    \
    const T nan = NAN, one = 1.0f, two = 2.0f;                                                                         \
    const T##2 a = make_##pair(1.0f, 2.0f), b = make_##pair(0.5f, 4.0f);                                               \
    IS(float(__hadd(one, two)), 3); IS(float(__hfma(two, two, one)), 5); IS(float(__hadd_sat(one, two)), 1);           \
    IS(float(__hfma_relu(-two, two, one)), 0); IS(float(__habs(__hneg(two))), 2); IS(float(hexp2(two)), 4);            \
    IS(float(hsqrt(T(16.0f))), 4); IS(float(hrcp(two)), .5); IS(float(hlog2(T(8.0f))), 3); IS(float(htrunc(T(-1.5f))), -1); \
    IS(float(hceil(T(1.5f))), 2); IS(float(hrint(T(2.5f))), 2); IS(float(__hmax(nan, two)), 2); IS(__hisnan(__hmax_nan(nan, two)), 1); \
    IS(__heq(nan, two), 0); IS(__hequ(nan, two), 1); IS(__hlt(one, two), 1); IS(__hisinf(T(-INFINITY)), -1);           \
    IS(__high2float(__hfma2(a, b, a)), 10); IS(__high2float(__h2div(a, b)), .5); IS(__low2float(__lowhigh2highlow(a)), 2); \
    IS(__high2float(__highs2##pair(a, b)), 4); IS(__low2float(__hgt2(a, b)), 1); IS(__high2float(__hgt2(a, b)), 0);    \
    IS(__hbge2(a, b), 0); IS(__hbge2(a, a), 1); IS(__hlt2_mask(a, b), 0xffff0000); IS(__high2float(h2exp2(__hmax2(a, b))), 16); \
    IS(__##pair##2float2(__float22##pair##_rn(make_float2(3, 4))).y, 4); IS(float(__low2##type(-(a * b - a))), .5);    \
    IS(float(__int2##type##_rn(-7)), -7); IS(float(__double2##type(.5)), .5); IS(float(__ull2##type##_rz(4)), 4);      \
    IS(float(__ushort_as_##type(__##type##_as_ushort(two))), 2); IS(__low2float(__float2##pair##_rn(3)), 3);           \
  }
NARROW_TEST(__half, half, half2)
NARROW_TEST(__nv_bfloat16, bfloat16, bfloat162)

__device__ int sum_of(cg::thread_group group, int *shared, int value) {
  const int rank = group.thread_rank();
  for (int half = group.size() / 2; half > 0; half /= 2) {
    shared[rank] = value;
    group.sync();
    if (rank < half) value += shared[rank + half];
    group.sync();
  }
  return value;
}
TEST(groups) {
  __shared__ int shared[32];
  const int i = threadIdx.x;
  const auto block = cg::this_thread_block();
  const auto warp = cg::tiled_partition<32>(block);
  const auto tile = cg::tiled_partition<8>(warp);
  const cg::thread_group any = cg::tiled_partition(cg::thread_group(block), 4);
  IS(any.size() * 100 + any.thread_rank(), 400 + i % 4); IS(tile.meta_group_rank() * 10 + tile.meta_group_size(), i / 8 * 10 + 4);
  const int sum = sum_of(block, shared, i), sum4 = sum_of(any, shared + i / 4 * 4, i);
  IS(cg::this_grid().thread_rank(), i); IS(cg::this_grid().size(), 32);
  if (i == 0) IS(sum, 496);
  if (i % 4 == 0) IS(sum4, 4 * i + 6);
  IS(cg::reduce(tile, i, cg::plus<int>()), i / 8 * 64 + 28); IS(cg::reduce(warp, i, cg::greater<int>()), 31);
  IS(cg::reduce(tile, float(i) / 2, cg::plus<float>()), i / 8 * 32 + 14);
  IS(cg::inclusive_scan(tile, 2), i % 8 * 2 + 2); IS(cg::exclusive_scan(warp, i, cg::plus<int>()), i * (i - 1) / 2);
  IS(cg::inclusive_scan(warp, 31 - i, cg::less<int>()), 31 - i); IS(tile.match_any(i / 2), 3u << i % 8 / 2 * 2);
  IS(tile.shfl_xor(make_uint4(i, 0, 0, 40 + i), 1).w, 40 + (i ^ 1));
  const auto part = cg::labeled_partition(warp, i % 3);
  IS(part.size() * 100 + part.thread_rank(), (i % 3 == 2 ? 10 : 11) * 100 + i / 3); IS(part.shfl(i, 2), 6 + i % 3);
  IS(cg::reduce(part, 1, cg::plus<int>()), i % 3 == 2 ? 10 : 11); IS(part.ballot(i >= 27), (i % 3 == 2 ? 0x200 : 0x600));
  IS(cg::exclusive_scan(cg::binary_partition(tile, i % 2 == 0), 1), i % 8 / 2);
  IS(tile.ballot(i % 8 == 1) * 10 + tile.shfl(i, 3), 20 + i / 8 * 8 + 3);
}
// In the order of the lanes, the place of each among those that count together.
__device__ __noinline__ int counted(int *count) {
  const auto active = cg::coalesced_threads();
  int first = 0;
  if (active.thread_rank() == 0) first = atomicAdd(count, active.size());
  return active.shfl(first, 0) + active.thread_rank();
}
// The active lanes, some of which end before, wait for others that are not active, or take another branch.
TEST(active_lanes) {
  __shared__ int counts[2];
  const int i = threadIdx.x;
  if (i < 2) counts[i] = 0;
  __syncwarp();
  if (i == 9) return;
  if (i % 3 == 0) {
    IS(__activemask(), 0x49249249 & ~0x200);
    IS(counted(counts), i < 9 ? i / 3 : i / 3 - 1);
  } else if (i % 3 == 1) {
    IS(__reduce_add_sync(__activemask(), 1), 11);
  } else {
    IS(counted(counts + 1), i / 3);
  }
  __syncwarp();
  IS(counts[0] * 100 + counts[1], 1010);
}

// Elements of two matrices: small integers, of which all products and sums are exact. Rows and columns are those of the product.
__device__ int left(int row, int k) { return (row * 3 + k * 5) % 7 - 3; }
__device__ int right(int k, int column) { return (column * 2 + k * 3) % 5 - 2; }
__device__ float product(int row, int column, int depth) {
  float sum = 0;
  for (int k = 0; k < depth; k++) sum += left(row, k) * right(k, column);
  return sum;
}
// With the orders of a, b and c: by rows or by columns.
template <class T, class Memory, class Sum, int M, int N, int K, bool A = true, bool B = true, bool C = true>
__device__ void multiply(float *out, int line) {
  __shared__ alignas(128) Memory a[M * K], b[K * N];
  __shared__ alignas(128) Sum c[M * N];
  for (int at = threadIdx.x; at < M * K; at += 32) a[A ? at : at % K * M + at / K] = Memory(float(left(at / K, at % K)));
  for (int at = threadIdx.x; at < K * N; at += 32) b[B ? at : at % N * K + at / N] = Memory(float(right(at / N, at % N)));
  __syncwarp();
  wmma::fragment<wmma::matrix_a, M, N, K, T, std::conditional_t<A, wmma::row_major, wmma::col_major>> of_a;
  wmma::fragment<wmma::matrix_b, M, N, K, T, std::conditional_t<B, wmma::row_major, wmma::col_major>> of_b;
  wmma::fragment<wmma::accumulator, M, N, K, Sum> of_c;
  wmma::load_matrix_sync(of_a, a, A ? K : M);
  wmma::load_matrix_sync(of_b, b, B ? N : K);
  wmma::fill_fragment(of_c, Sum(1.0f));
  wmma::mma_sync(of_c, of_a, of_b, of_c);
  for (int e = 0; e < of_c.num_elements; e++) of_c.x[e] = of_c.x[e] + Sum(2.0f);
  wmma::store_matrix_sync(c, of_c, C ? N : M, C ? wmma::mem_row_major : wmma::mem_col_major);
  __syncwarp();
  for (int at = threadIdx.x; at < M * N; at += 32) {
    if (float(c[C ? at : at % N * M + at / N]) != product(at / N, at % N, K) + 3) wrong(out, line);
  }
}
// Multiplies constant matrices: each sum is sum + 16 * factor.
__device__ int sum_of_16(signed char factor, int sum, bool saturates) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::row_major> b;
  wmma::fragment<wmma::accumulator, 16, 16, 16, int> c;
  wmma::fill_fragment(a, factor);
  wmma::fill_fragment(b, 1);
  wmma::fill_fragment(c, sum);
  wmma::mma_sync(c, a, b, c, saturates);
  return c.x[0];
}
TEST(wmma_saturates) {
  IS(sum_of_16(1, 0x7fffffff - 3, false), (-0x7fffffff - 1) + 12); IS(sum_of_16(1, 0x7fffffff - 3, true), 0x7fffffff);
  IS(sum_of_16(-2, (-0x7fffffff - 1) + 3, false), 0x7fffffff - 28); IS(sum_of_16(-2, (-0x7fffffff - 1) + 3, true), (-0x7fffffff - 1));
  IS(sum_of_16(-2, 5, true), -27);
}
TEST(wmma_products) {
  multiply<__half, __half, float, 16, 16, 16>(out, __LINE__);
  multiply<__half, __half, float, 16, 16, 16, false, true, false>(out, __LINE__);
  multiply<__half, __half, __half, 16, 16, 16, true, false, true>(out, __LINE__);
  multiply<__half, __half, float, 32, 8, 16, false, false, false>(out, __LINE__);
  multiply<__nv_bfloat16, __nv_bfloat16, float, 8, 32, 16, true, false, true>(out, __LINE__);
  multiply<wmma::precision::tf32, float, float, 16, 16, 8, true, false, true>(out, __LINE__);
  multiply<signed char, signed char, int, 16, 16, 16, true, false, true>(out, __LINE__);
  multiply<double, double, double, 8, 8, 4, true, false, true>(out, __LINE__);
}

// mma.sync, by the layouts of the PTX ISA. A register has EACH elements of `bits` bits.
template <int K, int EACH, class Encode, class Run>
__device__ void multiply(float *out, int line, const Encode &encode, const Run &run) {
  constexpr int STEPS = K / 4 / EACH;
  const int group = threadIdx.x / 4, quad = threadIdx.x % 4;
  unsigned a[4] = {}, b[2] = {};
  for (int at = 0; at < 2 * STEPS; at++) {
    for (int e = 0; e < EACH; e++) {
      const int k = at / 2 * 4 * EACH + quad * EACH + e;
      a[at] |= encode(left(group + at % 2 * 8, k)) << 32 / EACH % 32 * e;
      if (at % 2 == 0) b[at / 2] |= encode(right(k, group)) << 32 / EACH % 32 * e;
    }
  }
  float c[4];
  run(c, a, b);
  for (int at = 0; at < 4; at++) {
    if (c[at] != product(group + at / 2 * 8, 2 * quad + at % 2, K)) wrong(out, line);
  }
}
// One instruction: its depth, the elements of a register, its types, a and b in the template, and the registers of a and b.
#define MMA(k, each, encode, types, operands, ...)                                                                     \
  multiply<k, each>(out, __LINE__, encode, [&](float *c, unsigned *a, unsigned *b) {                                   \
    c[0] = c[1] = c[2] = c[3] = 0;                                                                                     \
    asm volatile("mma.sync.aligned.m16n8k" #k ".row.col.f32." types ".f32 {%0, %1, %2, %3}, " operands                 \
                 ", {%0, %1, %2, %3};\n" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : __VA_ARGS__);              \
  })
#define A_4 "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1])
TEST(mma_products) {
  const auto bf16 = [](int x) -> unsigned { return __bfloat16_as_ushort(__float2bfloat16(x)); };
  const auto fp16 = [](int x) -> unsigned { return __half_as_ushort(__float2half(x)); };
  const auto tf32 = [](int x) { return __float_as_uint(x); };
  MMA(16, 2, bf16, "bf16.bf16", "{%4, %5, %6, %7}, {%8, %9}", A_4);
  MMA(8, 2, bf16, "bf16.bf16", "{%4, %5}, {%6}", "r"(a[0]), "r"(a[1]), "r"(b[0]));
  MMA(16, 2, fp16, "f16.f16", "{%4, %5, %6, %7}, {%8, %9}", A_4);
  MMA(8, 1, tf32, "tf32.tf32", "{%4, %5, %6, %7}, {%8, %9}", A_4);
  multiply<16, 2>(out, __LINE__, fp16, [&](float *c, unsigned *a, unsigned *b) {
    unsigned d[2] = {};
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %9};"
                 : "=r"(d[0]), "=r"(d[1]) : A_4, "r"(d[0]), "r"(d[1]));
    for (int at = 0; at < 4; at++) c[at] = __half2float(__ushort_as_half(d[at / 2] >> at % 2 * 16));
  });
}
__device__ void loaded(float *out, int line, const unsigned *r, int count, bool is_transposed) {
  for (int m = 0; m < count; m++) {
    for (int e = 0; e < 2; e++) {
      const int row = threadIdx.x / 4, column = 2 * (threadIdx.x % 4) + e;
      if ((r[m] >> 16 * e & 65535) != m * 64 + (is_transposed ? column * 8 + row : row * 8 + column)) wrong(out, line);
    }
  }
}
TEST(ldmatrix) {
  __shared__ alignas(16) unsigned short tile[256];
  for (int at = threadIdx.x; at < 256; at += 32) tile[at] = at;
  __syncwarp();
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(tile + 8 * threadIdx.x));
  unsigned r[4];
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r[0]) : "r"(address) : "memory");
  loaded(out, __LINE__, r, 1, false);
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(address) : "memory");
  loaded(out, __LINE__, r, 2, true);
  asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
  loaded(out, __LINE__, r, 4, false);
}

TEST(votes) {
  const int i = threadIdx.x;
  int all;
  IS(__ballot_sync(~0u, i % 2), 0xaaaaaaaau); IS(__any_sync(~0u, 2 * (i == 3)), 1); IS(__any_sync(~0u, i == 32), 0);
  IS(__all_sync(~0u, i + 1), 1); IS(__all_sync(~0u, i), 0); IS(__match_any_sync(~0u, i / 8), 255u << i / 8 * 8);
  IS(__match_all_sync(~0u, 3.5, &all), ~0u); IS(all, 1);
  IS(__match_all_sync(~0u, i / 31, &all), 0); IS(all, 0);
  IS(__match_all_sync(~0u, NAN, &all), ~0u); IS(__match_any_sync(~0u, i ? 0.0f : -0.0f), i ? ~1u : 1u);
}

TEST(ptx) {
  const int i = threadIdx.x;
  unsigned x, y;
  unsigned long long time;
  float f, g, h[4];
  asm("mov.u32 %0, %%laneid;" : "=r"(x)); IS(x, i);
  asm("mov.u32 %0, %%ntid.x;" : "=r"(x)); IS(x, 32);
  asm volatile("mov.u32 %0, %%lanemask_lt;" : "=r"(x)); IS(__popc(x), i);
  asm volatile("mov.u32 %0, %%clock;" : "=r"(x) :: "memory");
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time)); IS(time > 0, 1);
  asm volatile("mov.u32 %0, %%clock;" : "=r"(y) :: "memory"); IS(int(y - x) >= 0, 1);
  asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(h[0]), "=f"(h[1]), "=f"(h[2]), "=f"(h[3]) : "l"(in + 4 * i));
  IS(h[0] * 1000 + h[3], 4 * i * 1000 + 4 * i + 3);
  asm volatile("ld.global.cg.f32 %0, [%1 + 4];" : "=f"(f) : "l"(in + i)); IS(f, i + 1);
  __shared__ alignas(16) float tile[64];
  const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(tile + 2 * i));
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" :: "r"(at), "f"(f), "f"(h[3]));
  asm volatile("{ .reg .b32 t; ld.shared.b32 t, [%1 + 4]; mov.b32 %0, t; }" : "=f"(g) : "r"(at)); IS(g, h[3]);
  asm("{ .reg .u64 a; cvta.to.shared.u64 a, %1; cvt.u32.u64 %0, a; }" : "=r"(x) : "l"(tile + 2 * i)); IS(x, at);
  IS(*static_cast<float *>(__cvta_shared_to_generic(at)), f);
  asm("{\n .reg .s32 t;\n add.s32 t, %1, 2;\n sub.s32 %0, t, %1;\n}" : "=r"(x) : "r"(i)); IS(x, 2);
  asm("{ .reg .f32 t; mov.f32 t, 0f40000000; mov.b32 %0, t; }" : "=r"(x)); IS(x, 0x40000000);
  asm("bfe.u32 %0, %1, %2, %3;" : "=r"(x) : "r"(0xabcd1234u), "r"(8), "r"(12)); IS(x, 0xd12);
  asm("bfe.u32 %0, %1, 0, 32;" : "=r"(x) : "r"(7)); IS(x, 7);
  asm("{ .reg .f32 t; fma.rn.f32 t, %1, %2, %2; max.f32 t, t, 0f40000000; mul.f32 %0, t, %1; }" : "=f"(f) : "f"(3.0f), "f"(5.0f)); IS(f, 60);
  asm("{ .reg .f32 t; ex2.approx.ftz.f32 t, %1; lg2.approx.f32 t, t; mul.ftz.f32 %0, t, %1; }" : "=f"(f) : "f"(3.0f)); IS(f, 9);
  asm("{ .reg .f32 t; sqrt.approx.f32 t, %1; rsqrt.approx.ftz.f32 t, t; rcp.approx.ftz.f32 %0, t; }" : "=f"(f) : "f"(16.0f)); IS(f, 2);
  asm("{ .reg .f32 t, u; tanh.approx.f32 t, %1; cos.approx.f32 u, %1; sin.approx.f32 t, t; add.f32 %0, t, u; }" : "=f"(f) : "f"(0.0f)); IS(f, 1);
  asm("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(x) : "r"(i), "r"(5), "r"(~9)); IS(x, unsigned(i ^ 5 ^ ~9));
  asm("lop3.b32 %0, %1, %2, %3, %4;" : "=r"(x) : "r"(i), "n"(6), "n"(0x64006400), "n"((0xf0 & 0xcc) | 0xaa)); IS(x, unsigned((i & 6) | 0x64006400));
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(x) : "f"(1.00048828125f)); IS(x >> 13 & 1023, 1);
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(x) : "f"(2.0f), "f"(1.0f)); IS(x, 0x40003f80);
#define PTX_ROUNDED(name, index)                                                                                       \
  asm("cvt." #name "i.s32.f32 %0, %1;" : "=r"(x) : "f"(-2.5f)); IS(int(x), ONE_OF(index, -2, -2, -3, -2));             \
  asm("cvt." #name ".f32.s32 %0, %1;" : "=f"(f) : "r"(-16777219)); IS(f, ONE_OF(index, -16777220, -16777218, -16777220, -16777218));
  PTX_ROUNDED(rn, 0) PTX_ROUNDED(rz, 1) PTX_ROUNDED(rm, 2) PTX_ROUNDED(rp, 3)
  asm("cvt.rzi.u64.f64 %0, %1;" : "=l"(time) : "d"(1e18)); IS(time, 1e18);
  asm("abs.f32 %0, %1;" : "=f"(f) : "f"(-0.0f)); IS(__float_as_uint(f), 0);
  asm volatile("bar.sync 0;");
  // The first 8 threads copy 16 bytes each; the last copies 8, and fills with zeros.
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(tile + 4 * i));
  if (i < 8) asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;\n" :: "r"(to), "l"(in + 4 * i));
  else if (i < 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(in + 4 * i), "r"(i == 15 ? 8 : 16));
  asm volatile("cp.async.commit_group;\n" ::: "memory");
  asm volatile("cp.async.wait_group %0;\n" :: "n"(0) : "memory");
  __syncthreads();
  IS(tile[31 - i], 31 - i); IS(tile[32 + i], i < 30 ? 32 + i : 0);
}
