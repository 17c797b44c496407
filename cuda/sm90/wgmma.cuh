// The matmul instructions of a warpgroup on sm_90a: operands in shared memory, sums in registers. hopper.cuh has the
// layout of a tile and the copies that load operands.
#pragma once

#include <cstdint>

namespace gpt2::sm90 {

// The descriptor of an operand in shared memory. The low word has the address in units of 16 bytes, to which the
// offsets of stages and steps of k are added.
struct Operand {
  uint32_t low;
  uint32_t high;  // a constant: the compiler keeps no register for it

  __device__ __forceinline__ Operand at(uint32_t bytes) const { return {low + (bytes >> 4), high}; }
  __device__ __forceinline__ operator uint64_t() const { return static_cast<uint64_t>(high) << 32 | low; }
};

// A K-major operand: a line of 128 bytes of k for each m or n. The next k (16 bf16 or 32 FP8) are 32 bytes further.
__device__ __forceinline__ Operand k_major(uint32_t shared) { return {(shared & 0x3ffff) >> 4, 1u << 30 | 1024 >> 4}; }
// An MN-major operand: a line of 64 m or n for each k; the next 64 begin after LINES lines, the next 16 k after 2048
// bytes.
template <int LINES>
__device__ __forceinline__ Operand mn_major(uint32_t shared) {
  return {(shared & 0x3ffff) >> 4 | static_cast<uint32_t>(LINES * 128 >> 4) << 16, 1u << 30 | 1024 >> 4};
}

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}
// Keeps the compiler from moving accesses to accumulators, or to operands in registers, across this point. A write
// moved past wgmma_fence() would race with the matmul.
template <int COUNT>
__device__ __forceinline__ void hold(float (&d)[COUNT]) {
#pragma unroll
  for (int i = 0; i < COUNT; i++) asm volatile("" : "+f"(d[i])::"memory");
}
template <int STEPS>
__device__ __forceinline__ void hold(uint32_t (&a)[STEPS][4]) {
#pragma unroll
  for (int i = 0; i < STEPS * 4; i++) asm volatile("" : "+r"(a[i / 4][i % 4])::"memory");
}

// The accumulators are listed twice: by name in the instruction's text, and as operands of the asm statement.
#define GPT2_NAMES_4 "%0,%1,%2,%3"
#define GPT2_NAMES_32                                     \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15" \
  ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define GPT2_NAMES_64                                                \
  GPT2_NAMES_32                                                      \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47" \
  ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define GPT2_NAMES_80 \
  GPT2_NAMES_64       \
  ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"
#define GPT2_NAMES_96 \
  GPT2_NAMES_80       \
  ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define GPT2_NAMES_100 GPT2_NAMES_96 ",%96,%97,%98,%99"
#define GPT2_NAMES_104 GPT2_NAMES_100 ",%100,%101,%102,%103"
#define GPT2_NAMES_128                                                               \
  GPT2_NAMES_104                                                                     \
  ",%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119" \
  ",%120,%121,%122,%123,%124,%125,%126,%127"
#define GPT2_SUMS_AT(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define GPT2_16_SUMS_AT(i) GPT2_SUMS_AT(i), GPT2_SUMS_AT(i + 4), GPT2_SUMS_AT(i + 8), GPT2_SUMS_AT(i + 12)
#define GPT2_SUMS_4 GPT2_SUMS_AT(0)
#define GPT2_SUMS_32 GPT2_16_SUMS_AT(0), GPT2_16_SUMS_AT(16)
#define GPT2_SUMS_64 GPT2_SUMS_32, GPT2_16_SUMS_AT(32), GPT2_16_SUMS_AT(48)
#define GPT2_SUMS_80 GPT2_SUMS_64, GPT2_16_SUMS_AT(64)
#define GPT2_SUMS_96 GPT2_SUMS_80, GPT2_16_SUMS_AT(80)
#define GPT2_SUMS_100 GPT2_SUMS_96, GPT2_SUMS_AT(96)
#define GPT2_SUMS_104 GPT2_SUMS_100, GPT2_SUMS_AT(100)
#define GPT2_SUMS_128 GPT2_SUMS_104, GPT2_SUMS_AT(104), GPT2_SUMS_AT(108), GPT2_16_SUMS_AT(112)

// Issues the wgmma of SHAPE on `d`, whose COUNT accumulators are operands 0 to COUNT - 1. The operands after them are
// the values in `...`; the string OPERANDS contains their numbers. The last operand, `adds`, has the number ADDS.
#define GPT2_WGMMA(COUNT, SHAPE, OPERANDS, ADDS, ...)                                               \
  asm volatile("{.reg .pred p;\nsetp.ne.b32 p, %" #ADDS ", 0;\nwgmma.mma_async.sync.aligned." SHAPE \
               " {" GPT2_NAMES_##COUNT "}, " OPERANDS ";}"                                          \
               : GPT2_SUMS_##COUNT                                                                  \
               : __VA_ARGS__, "r"(static_cast<int>(adds)))

// d (=|+= if `adds`) a b^T by a warpgroup: a [64,16] and b [N,16] in bf16, sums in fp32. In lane l of warp w, d[i] is
// at row 16 w + l / 4 + i / 2 % 2 * 8, column i / 4 * 8 + l % 4 * 2 + i % 2. A_MN, B_MN: 0 for K-major, 1 for MN-major.
template <int A_MN, int B_MN, int COUNT>
__device__ __forceinline__ void wgmma(float (&d)[COUNT], uint64_t a, uint64_t b, bool adds) {
#define GPT2_WGMMA_BF16(COUNT, N, A, B, A_MAJOR, B_MAJOR, ADDS)                                                  \
  GPT2_WGMMA(COUNT, "m64n" #N "k16.f32.bf16.bf16", "%" #A ", %" #B ", p, 1, 1, %" #A_MAJOR ", %" #B_MAJOR, ADDS, \
             "l"(a), "l"(b), "n"(A_MN), "n"(B_MN))
  if constexpr (COUNT == 128) {
    GPT2_WGMMA_BF16(128, 256, 128, 129, 130, 131, 132);
  } else if constexpr (COUNT == 104) {
    GPT2_WGMMA_BF16(104, 208, 104, 105, 106, 107, 108);
  } else if constexpr (COUNT == 96) {
    GPT2_WGMMA_BF16(96, 192, 96, 97, 98, 99, 100);
  } else if constexpr (COUNT == 64) {
    GPT2_WGMMA_BF16(64, 128, 64, 65, 66, 67, 68);
  } else if constexpr (COUNT == 32) {
    GPT2_WGMMA_BF16(32, 64, 32, 33, 34, 35, 36);
  } else if constexpr (COUNT == 4) {
    GPT2_WGMMA_BF16(4, 8, 4, 5, 6, 7, 8);
  } else {
    static_assert(COUNT < 0, "no instruction of this width");
  }
}

// wgmma() of FP8: a [64,32] in E4M3 or E5M2, b [N,32] in E4M3, both K-major; d has the same layout as with bf16.
template <bool A_IS_E5M2, int COUNT>
__device__ __forceinline__ void wgmma_fp8(float (&d)[COUNT], uint64_t a, uint64_t b, bool adds) {
#define GPT2_WGMMA_FP8(COUNT, N, A, B, ADDS)                                                              \
  if constexpr (A_IS_E5M2) {                                                                              \
    GPT2_WGMMA(COUNT, "m64n" #N "k32.f32.e5m2.e4m3", "%" #A ", %" #B ", p, 1, 1", ADDS, "l"(a), "l"(b)); \
  } else {                                                                                                \
    GPT2_WGMMA(COUNT, "m64n" #N "k32.f32.e4m3.e4m3", "%" #A ", %" #B ", p, 1, 1", ADDS, "l"(a), "l"(b)); \
  }
  if constexpr (COUNT == 100) {
    GPT2_WGMMA_FP8(100, 200, 100, 101, 102)
  } else if constexpr (COUNT == 96) {
    GPT2_WGMMA_FP8(96, 192, 96, 97, 98)
  } else if constexpr (COUNT == 80) {
    GPT2_WGMMA_FP8(80, 160, 80, 81, 82)
  } else {
    static_assert(COUNT < 0, "no instruction of this width");
  }
}

// wgmma() with a in registers, in the PTX ISA's layout, to which as_operand() packs accumulators.
template <int B_MN>
__device__ __forceinline__ void wgmma(float (&d)[32], const uint32_t (&a)[4], uint64_t b, bool adds) {
  GPT2_WGMMA(32, "m64n64k16.f32.bf16.bf16", "{%32, %33, %34, %35}, %36, p, 1, 1, %37", 38, "r"(a[0]), "r"(a[1]),
             "r"(a[2]), "r"(a[3]), "l"(b), "n"(B_MN));
}
template <int B_MN>
__device__ __forceinline__ void wgmma(float (&d)[64], const uint32_t (&a)[4], uint64_t b, bool adds) {
  GPT2_WGMMA(64, "m64n128k16.f32.bf16.bf16", "{%64, %65, %66, %67}, %68, p, 1, 1, %69", 70, "r"(a[0]), "r"(a[1]),
             "r"(a[2]), "r"(a[3]), "l"(b), "n"(B_MN));
}

}  // namespace gpt2::sm90
