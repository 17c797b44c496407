// A tile of a matmul's operand (product.cuh): 128 rows (mn) by 64 of k. Its layout in shared memory, the copies into
// the tile, the fragments loaded from it.
#pragma once

#include "../common/mma.cuh"

namespace gpt2::sm80 {

constexpr int tile = 128;
constexpr int step_k = 64;
constexpr int product_threads = 128;

template <bool K_MAJOR, int THREADS = product_threads>
struct Tile {
  static constexpr int line_bytes = K_MAJOR ? step_k * 2 : tile * 2;

  // The byte offset of a 16-byte chunk. K-major: a chunk of 8 k's in line mn; MN-major: a chunk of 8 mn's in line k.
  __device__ static uint32_t offset(int line, int chunk) { return line * line_bytes + ((chunk ^ (line & 7)) << 4); }

  // A thread's copies: the same chunk of every `lines_a_turn`-th line. The constructor computes what all steps share.
  struct Copier {
    static constexpr int chunks = line_bytes / 16;
    static constexpr int lines_a_turn = THREADS / chunks;
    static constexpr int turns = (K_MAJOR ? tile : step_k) / lines_a_turn;
    static_assert(lines_a_turn % 8 == 0, "the swizzle must be the same for all of a thread's lines");

    const bf16 *operand, *source;  // source advances with every copy
    int64_t turn_stride, step_stride;
    uint32_t shared_offset;
    int line, column, k_end;
    unsigned valid_turns;
    bool is_full;

    __device__ Copier(const bf16 *operand, int64_t ld, int mn0, int mn_end, int k0, int k_end)
        : operand(operand), k_end(k_end) {
      const int chunk = threadIdx.x % chunks;
      line = threadIdx.x / chunks;
      column = chunk * 8;
      shared_offset = offset(line, chunk);
      turn_stride = lines_a_turn * ld;
      valid_turns = 0;
      if constexpr (K_MAJOR) {
        source = operand + (mn0 + line) * ld + k0 + column;
        step_stride = step_k;
        for (int turn = 0; turn < turns; turn++) valid_turns |= (mn0 + line + turn * lines_a_turn < mn_end) << turn;
      } else {
        source = operand + (k0 + line) * ld + mn0 + column;
        step_stride = step_k * ld;
        valid_turns = mn0 + column < mn_end ? ~0u : 0u;
      }
      is_full = mn0 + tile <= mn_end;
    }

    // Copies the next step's tile, whose first k is `k0`.
    __device__ __forceinline__ void copy(uint32_t shared, int k0) {
      const bf16 *from = source;
      source += step_stride;
      // Nearly all tiles are full; their copies need no checks.
      if (is_full && k0 + step_k <= k_end) {
#pragma unroll
        for (int turn = 0; turn < turns; turn++) {
          copy_async(shared + shared_offset + turn * lines_a_turn * line_bytes, from, true);
          from += turn_stride;
        }
      } else {
        const int k = k0 + (K_MAJOR ? column : line);
        for (int turn = 0; turn < turns; turn++) {
          const bool valid = (valid_turns >> turn & 1) && k + (K_MAJOR ? 0 : turn * lines_a_turn) < k_end;
          copy_async(shared + shared_offset + turn * lines_a_turn * line_bytes, valid ? from : operand, valid);
          from += turn_stride;
        }
      }
    }
  };

  // Loads an mma fragment of operand a: 16 mn's by 16 k's.
  __device__ static void load_a(uint32_t (&r)[4], uint32_t shared, int mn, int k) {
    const int lane = threadIdx.x % 32;
    if constexpr (K_MAJOR) {
      load_matrices(r, shared + offset(mn + (lane & 15), k / 8 + (lane >> 4)));
    } else {
      load_matrices_transposed(r, shared + offset(k + (lane & 7) + (lane >> 4) * 8, mn / 8 + (lane >> 3 & 1)));
    }
  }

  // Loads two mma fragments of operand b, of 8 mn's by 16 k's each: r[0], r[1] and r[2], r[3].
  __device__ static void load_b(uint32_t (&r)[4], uint32_t shared, int mn, int k) {
    const int lane = threadIdx.x % 32;
    if constexpr (K_MAJOR) {
      load_matrices(r, shared + offset(mn + (lane & 7) + (lane >> 4) * 8, k / 8 + (lane >> 3 & 1)));
    } else {
      load_matrices_transposed(r, shared + offset(k + (lane & 15), mn / 8 + (lane >> 4)));
    }
  }
};

}  // namespace gpt2::sm80
