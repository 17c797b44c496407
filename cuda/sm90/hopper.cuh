// Instructions of sm_90a: barriers in shared memory, and the tensor memory accelerator (TMA), which copies tiles
// between global and shared memory by a tensor map. wgmma.cuh has the matmul instructions. Names follow the PTX ISA.
//
// A tile in shared memory is lines of 128 bytes (64 bf16 or 128 FP8), aligned to 1024 bytes. The index of each 16-byte
// chunk of a line is XORed with the line's index mod 8: TMA's 128-byte swizzle, which wgmma's descriptors expect.
#pragma once

#include <cuda.h>

#include <type_traits>

#include "../common/mma.cuh"

namespace gpt2::sm90 {

// ---------------------------------------------------------------- barriers

__device__ __forceinline__ void barrier_init(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}
// Makes initialised barriers visible to TMA and to the other block of the cluster.
__device__ __forceinline__ void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void barrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// Arrives at a barrier, and adds `bytes` to the bytes that TMA must load before the phase completes.
__device__ __forceinline__ void barrier_expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
// The address that corresponds to `shared` in block `rank` of the cluster.
__device__ __forceinline__ uint32_t address_at(uint32_t shared, uint32_t rank) {
  uint32_t there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared), "r"(rank));
  return there;
}
// Arrives at a barrier of either block of the cluster. The release orders memory for this block only, which is enough
// for stages that were only read; .release.cluster, a fence over the whole GPU, took a third of a matmul's time.
__device__ __forceinline__ void barrier_arrive_there(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// Waits for the end of the phase with this parity; the phase before the first counts as ended. In a Debug build (cmake
// -DCMAKE_BUILD_TYPE=Debug) a wait of ten seconds ends the kernel with an error instead of blocking the GPU.
__device__ __forceinline__ void barrier_wait(uint32_t barrier, uint32_t parity) {
#ifdef NDEBUG
  asm volatile(
      "{.reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;}" ::"r"(barrier),
      "r"(parity)
      : "memory");
#else
  // Ends the kernel by a write to address 0: with a trap instruction, ptxas ignores setmaxnreg, and spills registers.
  asm volatile(
      "{.reg .pred done, late;\n"
      ".reg .u64 begin, now;\n"
      "mov.u64 begin, %%globaltimer;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "mov.u64 now, %%globaltimer;\n"
      "sub.u64 now, now, begin;\n"
      "setp.gt.u64 late, now, 10000000000;\n"
      "@late st.global.u64 [%2], now;\n"
      "@!done bra again;}" ::"r"(barrier),
      "r"(parity), "l"(0ll)
      : "memory");
#endif
}

// Waits for all 128 threads of a warpgroup; `id` names its barrier, from 1 on, because 0 is __syncthreads().
__device__ __forceinline__ void warpgroup_sync(int id) { asm volatile("bar.sync %0, 128;" ::"r"(id) : "memory"); }

__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
__device__ __forceinline__ uint32_t cluster_rank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// Sets the number of registers of each thread of this warpgroup.
template <int REGISTERS>
__device__ __forceinline__ void decrease_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
template <int REGISTERS>
__device__ __forceinline__ void increase_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

// Marks a value as equal in all lanes, so that the compiler keeps dependent values in uniform registers.
template <class T>
__device__ __forceinline__ T uniform(T value) {
  return __shfl_sync(0xffffffffu, value, 0);
}

// ---------------------------------------------------------------- TMA

// A position in a ring of stages; each role of a kernel (producer, consumer) advances a separate position.
template <int STAGES>
struct RingPosition {
  uint32_t stage = 0, parity = 0;
  __device__ __forceinline__ void advance() {
    if (++stage == STAGES) {
      stage = 0;
      parity ^= 1;
    }
  }
  // Waits for a stage and releases it unread.
  __device__ __forceinline__ void skip(uint32_t full, uint32_t empty, bool releases) {
    barrier_wait(full + stage * 8, parity);
    if (releases) barrier_arrive(empty + stage * 8);
    advance();
  }
};

__device__ __forceinline__ void prefetch_map(const CUtensorMap &map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}
template <class... Maps>
__device__ __forceinline__ void prefetch_maps(const Maps &...maps) {
  (prefetch_map(maps), ...);
}

// Copies a box of a matrix to shared memory; the barrier counts its bytes. x is the inner coordinate. Elements outside
// the matrix are zeros.
__device__ __forceinline__ void load_box(uint32_t shared, const CUtensorMap &map, int x, int y, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
          shared),
      "l"(&map), "r"(x), "r"(y), "r"(barrier)
      : "memory");
}
// load_box() into both blocks of a cluster; in each block, the barrier at this address counts the bytes.
__device__ __forceinline__ void load_box_to_both(uint32_t shared, const CUtensorMap &map, int x, int y,
                                                 uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, "
      "%3}], "
      "[%4], %5;" ::"r"(shared),
      "l"(&map), "r"(x), "r"(y), "r"(barrier), "h"(static_cast<uint16_t>(3))
      : "memory");
}
__device__ __forceinline__ void load_box(uint32_t shared, const CUtensorMap &map, int x, int y, int z, int w,
                                         uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], "
      "[%6];" ::"r"(shared),
      "l"(&map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(barrier)
      : "memory");
}

// The type of the argument `matrix` for a map of one matrix (matrix_map). For matrices_map the argument is an int.
struct OnlyMatrix {};

// load_box() and load_box_to_both() of one of the map's matrices.
template <class Matrix>
__device__ __forceinline__ void load_box(uint32_t shared, const CUtensorMap &map, int x, int y, Matrix matrix,
                                         uint32_t barrier) {
  if constexpr (std::is_same_v<Matrix, OnlyMatrix>) {
    load_box(shared, map, x, y, barrier);
  } else {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], "
        "[%5];" ::"r"(shared),
        "l"(&map), "r"(x), "r"(y), "r"(matrix), "r"(barrier)
        : "memory");
  }
}
template <class Matrix>
__device__ __forceinline__ void load_box_to_both(uint32_t shared, const CUtensorMap &map, int x, int y, Matrix matrix,
                                                 uint32_t barrier) {
  if constexpr (std::is_same_v<Matrix, OnlyMatrix>) {
    load_box_to_both(shared, map, x, y, barrier);
  } else {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, "
        "{%2, %3, %4}], [%5], %6;" ::"r"(shared),
        "l"(&map), "r"(x), "r"(y), "r"(matrix), "r"(barrier), "h"(static_cast<uint16_t>(3))
        : "memory");
  }
}

// Copies contiguous bytes to shared memory. The number of bytes and both addresses are multiples of 16.
__device__ __forceinline__ void load_bytes(uint32_t shared, const void *memory, int bytes, uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared),
               "l"(memory), "r"(bytes), "r"(barrier)
               : "memory");
}

// The L2 policy of stored results. `streams`: results far larger than L2 are evicted first, so that operands stay.
__device__ __forceinline__ uint64_t store_policy(bool streams) {
  uint64_t policy;
  if (streams) {
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0;" : "=l"(policy));
  } else {
    asm volatile("createpolicy.fractional.L2::evict_normal.b64 %0;" : "=l"(policy));
  }
  return policy;
}

// Stores a box, except elements outside the tensor. The threads that wrote the box call fence_async_proxy() first.
__device__ __forceinline__ void store_box(const CUtensorMap &map, int x, int y, uint32_t shared, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group.L2::cache_hint [%0, {%1, %2}], [%3], %4;" ::"l"(&map),
      "r"(x), "r"(y), "r"(shared), "l"(policy)
      : "memory");
}
__device__ __forceinline__ void store_box(const CUtensorMap &map, int x, int y, int z, int w, uint32_t shared) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%1, %2, %3, %4}], [%5];" ::"l"(&map),
               "r"(x), "r"(y), "r"(z), "r"(w), "r"(shared)
               : "memory");
}
// store_box() to one of the map's matrices.
template <class Matrix>
__device__ __forceinline__ void store_box(const CUtensorMap &map, int x, int y, Matrix matrix, uint32_t shared,
                                          uint64_t policy) {
  if constexpr (std::is_same_v<Matrix, OnlyMatrix>) {
    store_box(map, x, y, shared, policy);
  } else {
    asm volatile(
        "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group.L2::cache_hint [%0, {%1, %2, %3}], [%4], %5;" ::"l"(
            &map),
        "r"(x), "r"(y), "r"(matrix), "r"(shared), "l"(policy)
        : "memory");
  }
}
__device__ __forceinline__ void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Waits until at most PENDING of this thread's latest groups of stores still read shared memory.
template <int PENDING>
__device__ __forceinline__ void wait_stores_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}
// Makes this thread's ordinary writes to shared memory visible to TMA and wgmma.
__device__ __forceinline__ void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ __forceinline__ void store_matrices(uint32_t address, const uint32_t (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(r[0]), "r"(r[1]),
               "r"(r[2]), "r"(r[3])
               : "memory");
}

__device__ __forceinline__ void store_two_bytes(uint32_t address, uint16_t value) {
  asm volatile("st.shared.b16 [%0], %1;" ::"r"(address), "h"(value) : "memory");
}

__device__ __forceinline__ uint16_t load_two_bytes(uint32_t address) {
  uint16_t value;
  asm volatile("ld.shared.b16 %0, [%1];" : "=h"(value) : "r"(address) : "memory");
  return value;
}

// store_matrices(), each matrix transposed: the address of its i-th row receives its i-th column.
__device__ __forceinline__ void store_matrices_transposed(uint32_t address, const uint32_t (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(r[0]),
               "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}
__device__ __forceinline__ void store_matrices_transposed(uint32_t address, const uint32_t (&r)[2]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1,%2};" ::"r"(address), "r"(r[0]), "r"(r[1])
               : "memory");
}

// ---------------------------------------------------------------- tensor maps, on the host

// A map of a bf16 matrix: `lines` lines of `inner` elements, `stride` elements apart, in boxes of box_lines lines of
// box_inner elements. In shared memory a line takes 128 bytes even if the box's lines are shorter.
CUtensorMap matrix_map(const void *matrix, int64_t inner, int64_t lines, int64_t stride,
                       int box_lines, int box_inner = 64);

// matrix_map() of an FP8 matrix. A box_inner of 64 gives lines of 64 bytes, whose 16-byte chunks are XORed with the
// line's index / 2 mod 4.
CUtensorMap fp8_matrix_map(const void *matrix, int64_t inner, int64_t lines, int64_t stride,
                           int box_lines, int box_inner = 128);

// A map of a tensor [matrices,lines,inner] of bf16. A box belongs to one matrix: elements past the matrix are zeros,
// not elements of the next matrix.
CUtensorMap matrices_map(const void *tensor, int64_t inner, int64_t lines, int64_t matrices,
                         int box_lines);

// A map of the heads of a bf16 tensor [B,T,...] whose positions are `stride` elements apart. Coordinates are channel
// (below 64), position, group of 64 channels (HS / 64 for each head), batch. A box is box_lines positions of a head; at
// head size 128 its two groups follow each other in shared memory.
CUtensorMap heads_map(const void *tensor, int heads, int HS, int64_t T, int64_t B, int64_t stride,
                      int box_lines);

}  // namespace gpt2::sm90
