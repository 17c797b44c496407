// Finishes a matmul's tile slice by slice, 16 columns at a time: bias, activation, residual, exponentials, store.
//
// Four slices are 64 columns: a warp collects its 16 rows in shared memory (stmatrix), and TMA stores them. TMA also
// loads the epilogue's extra input (the residual, an activation's input or output) into the same buffers, where the
// results then replace the input. The load is issued while the tile is multiplied, as soon as the buffer is free.
//
// With FP8 operands, results of activations and of their backward are stored in FP8. Scales come from an upper bound
// (gpt2.h), so no maximum is computed. In the rowwise copy, a lane's two adjacent values are 2 bytes, fewer than
// stmatrix moves, so each lane stores them by itself; the swizzle of 64-byte lines avoids bank conflicts. In the
// columnwise copy, rows 8 apart are neighbours, so a lane's two values of a column are adjacent, and stmatrix
// transposes both at once. A warp has 16 bytes of a column, a warpgroup 64, which TMA stores together. The classifier's
// exponentials are in E5M2 with one scale, so both copies have the same bytes.
//
// A warp that issues a second TMA store waits some 300 cycles for the first. So with several results, a warpgroup
// collects its 64 rows of each result, and a different warp stores each result. This took 9% off fc's matmul with GELU.
#pragma once

#include "product.cuh"

namespace gpt2::sm90 {

constexpr int interleaved_tile_n = 192;
constexpr int slices = interleaved_tile_n / 16;
template <class Element>
constexpr int slices_per_step = is_fp8<Element> ? 2 : 1;
// The fewest steps of k of a tile, in which all slices of the previous tile are finished. A shorter k is padded with zeros.
template <class Element>
constexpr int least_steps = slices / slices_per_step<Element>;

// Staging bytes for 64 FP8 columns: a warp's 16 rows of the rowwise copy, a warpgroup's 64 of the columnwise copy.
constexpr int values_bytes = 16 * 64, columnwise_bytes = 4 * values_bytes;

template <Epilogue E, class Element>
struct Interleaved {
  static constexpr bool reads_extra =
      E == Epilogue::residual || E == Epilogue::combination || is_activation_backward<E>;
  static constexpr bool is_exponential = gpt2::is_exponential<E>;
  static constexpr bool stores_fp8 = gpt2::stores_fp8<E, is_fp8<Element>>;
  static constexpr bool has_scales = stores_fp8 && !is_exponential;  // whether the result has scales
  static constexpr bool reads_fp8 = gpt2::reads_fp8<E, is_fp8<Element>>;
  static constexpr bool reads_derivative = gpt2::reads_derivative<E, is_fp8<Element>>;
  // Whether the extra input, or GELU's second result (its derivative), has one byte an element.
  static constexpr bool has_bytes = reads_fp8 || reads_derivative || (E == Epilogue::gelu && stores_fp8);
  static constexpr bool stores_several = E == Epilogue::gelu || stores_fp8;
  // The number of buffers of 64 columns, without the two more that each FP8 result has. A bf16 result uses the extra
  // input's buffer. Without an extra input, a single result has a buffer for each 64 columns; several have two each.
  static constexpr int buffers = E == Epilogue::gelu          ? (stores_fp8 ? 2 : 4)
                                 : reads_extra || !stores_fp8 ? interleaved_tile_n / 64
                                                              : 0;
  static constexpr int warp_bytes = has_bytes ? values_bytes : buffer_bytes;  // a warp's rows of a buffer
  // A warpgroup's staging holds buffers, then rowwise FP8, then columnwise FP8. The buffers of a warp are adjacent;
  // with several results, the four warps' rows of a buffer are adjacent instead.
  static constexpr int buffer_stride = (stores_several ? 4 : 1) * warp_bytes;
  static constexpr int warp_stride = (stores_several ? 1 : buffers) * warp_bytes;
  static constexpr int values_at = buffers * 4 * warp_bytes, columnwise_at = values_at + 2 * 4 * values_bytes;
  static constexpr int warpgroup_bytes = stores_fp8 ? columnwise_at + 2 * columnwise_bytes : values_at;
  static constexpr int more_bytes = warpgroup_bytes - 4 * warp_stride;
  static constexpr int staging_bytes = 2 * warpgroup_bytes;
  // Whether loads are issued early: a slice's bias and extra input one slice before use, the values for a tile's rows
  // (such as scales) one tile before. If not, a slice takes less time than a step's matmul, and the wait for this
  // matmul hides the loads' latency, with fewer registers.
  static constexpr bool loads_early = stores_fp8;
  // Whether a step waits for the previous matmul before it issues the next. With these epilogues a slice takes longer
  // than a step's matmul, so this wait costs nothing.
  static constexpr bool eager = E == Epilogue::gelu || E == Epilogue::gelu_backward || stores_fp8;
};

// e^x from x log2(e), limited to e^77, so that the sum of 50,304 exponentials is finite in fp32. NaN stays NaN.
__device__ __forceinline__ float exponential(float x_log2) {
  float limited;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(limited) : "f"(x_log2), "f"(77 * log2e));
  return exp2_approximate(limited);
}

template <class Body>
__device__ __forceinline__ float2 pairwise(float2 a, float2 b, Body body) {
  return make_float2(body(a.x, b.x), body(a.y, b.y));
}

// Applies the epilogue to a consumer warp's tiles and stores them, slice by slice.
template <Epilogue E, class Arguments>
struct Finisher : MatrixOfTile<typename Arguments::Matrix> {
  using Element = typename Arguments::Element;
  using Shape = Interleaved<E, Element>;
  static constexpr int per_step = slices_per_step<Element>;
  static constexpr int per_buffer = 4;  // slices of 16 columns in a buffer

  const typename Arguments::Maps &maps;
  const Arguments &arguments;
  const ProductOutputs &outputs;
  const uint64_t policy = store_policy(arguments.streams);
  uint32_t staging, barriers;  // this warp's rows in buffers, and a barrier for each buffer's extra input
  int row0 = 0, n0 = 0, tile_n = 0;
  uint32_t extra_parity = 0;
  float of_row[2], row_sum[2];
  int target[2];
  bool leaves_out = false;
  uint32_t turn = 0;  // with several results: which of the two buffers takes the next 64 columns
  uint32_t bias[2] = {};
  uint32_t others[4];  // a slice of the extra input
  // For FP8. `scale`: the row's scale; the first slice multiplies it by the weight's scale and, with reads_fp8, by the
  // root of activated_scale. to_values, to_columnwise: norms of the input's rows and of its block of rows; the first
  // slice replaces them by the inverse scales of the FP8 result. columnwise_rows: a mask, 0 for rows past the matrix.
  float scale[2], to_values[2], to_columnwise = 0;
  float activated_scale[2] = {}, activated_columnwise_scale = 0;
  uint32_t columnwise_rows = 0;
  float weight_scale;
  Fp8Bound<E> bound;

  __device__ __forceinline__ Finisher(const typename Arguments::Maps &maps, const Arguments &arguments,
                                      const ProductOutputs &outputs, uint32_t staging, uint32_t barriers)
      : maps(maps), arguments(arguments), outputs(outputs), staging(staging), barriers(barriers) {
    if constexpr (is_fp8<Element>) weight_scale = arguments.fp8.factors[GPT2_FP8_SCALE];
    if constexpr (Shape::has_scales) bound = Fp8Bound<E>::of(arguments.fp8.factors);
  }

  __device__ __forceinline__ int row_of(int half) const {
    return row0 + half * 8 + static_cast<int>(threadIdx.x % 32) / 4;
  }

  // With FP8, hides from the compiler that `value` is constant: no registers are left for values derived from it.
  template <class T>
  __device__ __forceinline__ static void hide(T &value) {
    if constexpr (is_fp8<Element>) asm volatile("" : "+r"(value));
  }

  // Loads 64 columns of the extra input into buffer i. The last store from the buffer was issued some time ago, if any.
  __device__ __forceinline__ void load_extra(typename Arguments::Matrix of, int row, int column, int i) const {
    if (threadIdx.x % 32 != 0) return;
    if constexpr (!Shape::stores_fp8) wait_stores_read<0>();
    barrier_expect(barriers + i * 8, Shape::warp_bytes);
    load_box(staging + i * Shape::buffer_stride, maps.other, column + i * 64, row, of, barriers + i * 8);
  }

  // Loads the bias of slice `s` into registers, for finish<s>().
  __device__ __forceinline__ void load_bias(int s) {
    if constexpr (adds_bias<E>) {
      if (!outputs.bias) return;
      uint32_t thread = threadIdx.x;
      hide(thread);
#pragma unroll
      for (int p = 0; p < 2; p++) {
        const int column = n0 + s * 16 + p * 8 + static_cast<int>(thread % 4) * 2;
        // Early loads are unconditional: after a conditional load, the compiler waited immediately for its value.
        // Columns past the matrix load another bias, but their results are not stored.
        const int from = Shape::loads_early ? min(column, (arguments.N - 1) & ~1) : column;
        if (Shape::loads_early || column < arguments.N) {
          bias[p] = *reinterpret_cast<const uint32_t *>(outputs.bias + from);
        }
      }
    }
  }

  // Loads the values for a tile's rows (such as scales) and the bias of slice 0. A later wait hides the latency.
  __device__ __forceinline__ void prepare() {
    if constexpr (is_fp8<Element>) {
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const int row = row_of(half);
        scale[half] = row < arguments.M ? arguments.fp8.scale[row] : 0.0f;
        if constexpr (Shape::has_scales) to_values[half] = row < arguments.M ? arguments.fp8.norm[row] : 0.0f;
        if constexpr (Shape::reads_fp8) {
          activated_scale[half] = row < arguments.M ? arguments.fp8.activated_scale[row] : 0.0f;
        }
      }
      if constexpr (Shape::has_scales) {
        const int block = min(row0, arguments.M - 1) / GPT2_FP8_BLOCK;
        if (arguments.fp8.columnwise) to_columnwise = arguments.fp8.columnwise_norm[block];
        if constexpr (Shape::reads_fp8) {
          activated_columnwise_scale = arguments.fp8.activated_columnwise_scale[block];
        }
      }
    }
    if constexpr (Shape::is_exponential) {
      leaves_out = false;
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const int row = row_of(half);
        // In rows past the matrix all exponentials become 0, the padding of columnwise copies.
        of_row[half] = row < arguments.M ? outputs.rows[row] * log2e : INFINITY;
        target[half] = row < arguments.M ? outputs.targets[row] : -1;
        leaves_out = leaves_out || (target[half] >= n0 && target[half] < n0 + interleaved_tile_n);
        row_sum[half] = 0;
      }
      // Few tiles contain a target or padding columns; other tiles skip the check of each column.
      leaves_out = __any_sync(0xffffffffu, leaves_out) || n0 + interleaved_tile_n > outputs.columns;
    }
    load_bias(0);
  }

  // With FP8 operands, computes the factors of a tile's rows and the scales of an FP8 result.
  __device__ __forceinline__ void scale_rows() {
    if constexpr (Shape::has_scales) {
      if (arguments.fp8.columnwise) {
        const float of_block = bound.scale(to_columnwise, activated_columnwise_scale);
        to_columnwise = inverse_of(of_block);
        columnwise_rows = (row_of(0) < arguments.M ? 0x00ff00ff : 0) | (row_of(1) < arguments.M ? 0xff00ff00 : 0);
        if (n0 == 0 && row0 % GPT2_FP8_BLOCK == 0 && row0 < arguments.M && threadIdx.x % 32 == 0) {
          arguments.fp8.columnwise_scale[row0 / GPT2_FP8_BLOCK] = of_block;
        }
      }
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
      if constexpr (Shape::has_scales) {
        const float of_values = bound.scale(to_values[half], activated_scale[half]);
        to_values[half] = inverse_of(of_values);
        const int row = row_of(half);
        if (n0 == 0 && threadIdx.x % 4 == 0 && row < arguments.M) arguments.fp8.values_scale[row] = of_values;
      }
      scale[half] *= weight_scale;
      if constexpr (Shape::reads_fp8) scale[half] *= sqrt_approximate(activated_scale[half]);
    }
  }

  // The address of a lane's FP8 values of slice `s` in a warp's 16 lines of 64 bytes; a slice is a 16-byte chunk.
  __device__ __forceinline__ static uint32_t line_of(uint32_t lines, int s, int lane) {
    return lines + lane / 4 * 64 + ((s % per_buffer ^ lane / 8) << 4) + lane % 4 * 2;
  }
  // The offset in bytes from line_of() to a lane's pair p of values, in the order of `pairs` in finish().
  __device__ static constexpr int offset_of(int p) { return p % 2 * (8 * 64) + p / 2 * 8; }

  // Loads a lane's values of slice `s` of the extra input from `buffer` in shared memory.
  __device__ __forceinline__ void load_others(uint32_t buffer, int s, uint32_t thread) {
    if constexpr (Shape::has_bytes) {
#pragma unroll
      for (int p = 0; p < 4; p++) {
        others[p] = load_two_bytes(line_of(buffer, s, static_cast<int>(thread % 32)) + offset_of(p));
      }
    } else {
      load_matrices(others, matrices_at(buffer, s % per_buffer * 2, thread));
    }
  }

  template <int s>
  __device__ __forceinline__ void finish(const float (&result)[interleaved_tile_n / 2]) {
    uint32_t thread = threadIdx.x, first_buffer = staging;
    hide(thread);
    hide(first_buffer);
    const int lane = thread % 32;
    constexpr int i = s / per_buffer, j = s % per_buffer * 2;
    const int warp = static_cast<int>(thread % 128 / 32);
    const uint32_t pre_buffer = first_buffer + turn * Shape::buffer_stride;
    const uint32_t buffer =
        E == Epilogue::gelu ? pre_buffer + 2 * Shape::buffer_stride : first_buffer + i * Shape::buffer_stride;
    // The beginning of the warpgroup's staging.
    const uint32_t all_rows = first_buffer - warp * Shape::warp_stride;
    const uint32_t values_buffer = all_rows + Shape::values_at + turn * (4 * values_bytes);
    const uint32_t columnwise_buffer = all_rows + Shape::columnwise_at + turn * columnwise_bytes;
    if constexpr (j == 0) {
      if constexpr (Shape::reads_extra) barrier_wait(barriers + i * 8, extra_parity);
      if constexpr (!Shape::reads_extra && !Shape::stores_several) {
        if (lane == 0) wait_stores_read<Shape::buffers - 1>();
        __syncwarp();
      }
    }
    if constexpr (is_fp8<Element> && s == 0) scale_rows();
    // A lane's pairs of adjacent columns: of its row, of the row 8 below, then of both rows 8 columns to the right.
    float2 pairs[4];
#pragma unroll
    for (int p = 0; p < 4; p++) {
      pairs[p] = make_float2(result[s * 8 + p * 2], result[s * 8 + p * 2 + 1]);
      if constexpr (is_fp8<Element>) pairs[p] = make_float2(pairs[p].x * scale[p % 2], pairs[p].y * scale[p % 2]);
      if constexpr (adds_bias<E>) {
        pairs[p] = pairwise(pairs[p], unpack_bf16(bias[p / 2]), [](float x, float added) { return x + added; });
      }
    }
    if constexpr ((Shape::loads_early || (s + 1) % per_step != 0) && s + 1 < slices) load_bias(s + 1);
    if constexpr (Shape::is_exponential) {
#pragma unroll
      for (int p = 0; p < 4; p++) {
        float2 derivative = make_float2(1, 1);
        if constexpr (E == Epilogue::capped_exponentials) {
          const Softcapped x = softcapped(pairs[p].x, outputs.softcap), y = softcapped(pairs[p].y, outputs.softcap);
          pairs[p] = make_float2(x.value, y.value);
          derivative = make_float2(x.derivative, y.derivative);
        }
        pairs[p].x = exponential(fmaf(pairs[p].x, log2e, -of_row[p % 2]));
        pairs[p].y = exponential(fmaf(pairs[p].y, log2e, -of_row[p % 2]));
        if (leaves_out) {
          const int column = n0 + s * 16 + p / 2 * 8 + lane % 4 * 2;
          if (column == target[p % 2] || column >= outputs.columns) pairs[p].x = 0;
          if (column + 1 == target[p % 2] || column + 1 >= outputs.columns) pairs[p].y = 0;
        }
        row_sum[p % 2] += pairs[p].x + pairs[p].y;
        pairs[p].x *= derivative.x;
        pairs[p].y *= derivative.y;
      }
    }
    if constexpr (E == Epilogue::gelu && Shape::has_bytes) {
      const uint32_t line = line_of(pre_buffer, s, lane);
#pragma unroll
      for (int p = 0; p < 4; p++) {
        const GeluAndDerivative low(pairs[p].x), high(pairs[p].y);
        store_two_bytes(line + offset_of(p), pack_bytes(low, high));
        pairs[p] = make_float2(low.value, high.value);
      }
    } else if constexpr (E == Epilogue::gelu) {
      uint32_t packed[4];
#pragma unroll
      for (int p = 0; p < 4; p++) packed[p] = pack_bf16(pairs[p].x, pairs[p].y);
      store_matrices(matrices_at(pre_buffer, j, thread), packed);
    }
    if constexpr (is_activation<E> && !Shape::has_bytes) {
#pragma unroll
      for (int p = 0; p < 4; p++) {
        pairs[p] = make_float2(activation<E, bf16>(pairs[p].x), activation<E, bf16>(pairs[p].y));
      }
    }
    if constexpr (Shape::reads_extra) {
      if constexpr (!Shape::loads_early || j == 0) load_others(buffer, s, thread);
#pragma unroll
      for (int p = 0; p < 4; p++) {
        const auto two_bytes = static_cast<uint16_t>(others[p]);
        const float2 other = Shape::reads_derivative ? unpack_derivatives(two_bytes)
                             : Shape::reads_fp8      ? unpack_fp8(two_bytes)
                                                     : unpack_bf16(others[p]);
        pairs[p] = pairwise(pairs[p], other, [&](float x, float y) {
          if constexpr (Shape::reads_derivative) return x * y;
          if constexpr (E == Epilogue::residual) return x + y;
          if constexpr (E == Epilogue::combination) return outputs.alpha * x + outputs.beta * y;
          return x * activation_derivative<E, bf16>(y);
        });
      }
      if constexpr (Shape::loads_early && s % per_buffer != per_buffer - 1) {
        load_others(buffer, s + 1, thread);
      }
      __syncwarp();
    }
    if constexpr (!Shape::stores_fp8) {
      uint32_t packed[4];
#pragma unroll
      for (int p = 0; p < 4; p++) packed[p] = pack_bf16(pairs[p].x, pairs[p].y);
      store_matrices(matrices_at(buffer, j, thread), packed);
    } else {
      const uint32_t line = line_of(values_buffer + warp * values_bytes, s, lane);
      uint16_t rows[4];
#pragma unroll
      for (int p = 0; p < 4; p++) {
        rows[p] = Shape::is_exponential ? pack_e5m2(pairs[p].x, pairs[p].y)
                                        : pack_fp8(pairs[p].x * to_values[p % 2], pairs[p].y * to_values[p % 2]);
        store_two_bytes(line + offset_of(p), rows[p]);
      }
      uint32_t columns[2];
#pragma unroll
      for (int q = 0; q < 2; q++) {
        if constexpr (Shape::is_exponential) {
          columns[q] = __byte_perm(rows[q * 2], rows[q * 2 + 1], 0x5140);
          continue;
        }
        const float2 upper = pairs[q * 2], lower = pairs[q * 2 + 1];
        columns[q] = pack_fp8(upper.x * to_columnwise, lower.x * to_columnwise) |
                     static_cast<uint32_t>(pack_fp8(upper.y * to_columnwise, lower.y * to_columnwise)) << 16;
        columns[q] &= columnwise_rows;
      }
      const int column = s % per_buffer * 16 + lane % 16;
      store_matrices_transposed(columnwise_buffer + column * 64 + ((warp ^ (column / 2 % 4)) << 4), columns);
    }

    if constexpr (s % per_buffer == per_buffer - 1) {
      fence_async_proxy();
      const int column = n0 + i * 64;
      if constexpr (Shape::stores_several) {
        // The other buffers' stores were issued 64 columns ago. After this wait and barrier, those buffers are free.
        if (lane == 0) wait_stores_read<0>();
        warpgroup_sync(1 + static_cast<int>(thread / 256));
        if (lane == 0 && (!Shape::is_exponential || outputs.stores)) {
          const int row = row0 - warp * 16;
          if (E == Epilogue::gelu && warp == 0) store_box(maps.other, column, row, pre_buffer, policy);
          if constexpr (Shape::stores_fp8) {
            if (warp == 1) store_box(maps.values, column, row, values_buffer, policy);
            if (warp == 2 && arguments.fp8.columnwise) {
              store_box(maps.columnwise, row, column, columnwise_buffer, policy);
            }
          } else {
            if (warp == 1) store_box(maps.out, column, row, buffer - buffer_bytes, policy);
          }
          commit_stores();
        }
        turn ^= 1;
      } else {
        __syncwarp();
        if (lane == 0 && (!Shape::is_exponential || outputs.stores)) {
          store_box(maps.out, column, row0, this->matrix(), buffer, policy);
          commit_stores();
        }
      }
    }
    if constexpr (Shape::is_exponential && s == slices - 1) {
#pragma unroll
      for (int half = 0; half < 2; half++) {
        row_sum[half] = quad_sum(row_sum[half]);
        const int row = row_of(half);
        if (lane % 4 == 0 && row < arguments.M) {
          outputs.row_sums[static_cast<int64_t>(tile_n) * arguments.M + row] = row_sum[half];
        }
      }
    }
    if constexpr (s == slices - 1) extra_parity ^= 1;
  }
};

}  // namespace gpt2::sm90
