// Products whose operands are rounded to bf16 (to nearest, ties to even) as they are copied, with sums in fp32: as
// AMX computes them, or by vectors with the same bits. Both operands are tiles of 16 x 16 words, a word being a pair of
// neighbours in K: A as [M / 16][K / 32][row][pair], B as [N / 16][K / 32][pair][column], padded with zeros.
//
// Order of a sum, AMX's: of each 32 terms, the 16 even ones and the 16 odd ones are two chains of fused multiply-adds
// from 0; the sum of both is added to the total. Denormals, as operands and as results, are zero. A total continues
// over blocks of K, so it does not depend on their length.
#include "kernels.h"
#include "math.h"
#include "vectors.h"
#if defined(__AMX_BF16__)
#include <immintrin.h>
#elif defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace gpt2::GPT2_PATH {

namespace {

constexpr int SIDE = 16;            // rows, columns and pairs of a tile
constexpr int PAIRS = 2 * SIDE;     // elements of K in a tile
constexpr int WORDS = SIDE * SIDE;  // of a tile

// Sums stay in registers for 1536 in K: a Xeon's 36 products of benchmarks/cpu.md run at 722 GFLOP/s, in blocks of 768 at 673. A
// block of A (1.5 MiB) and 32 columns of B (96 KiB) stay in an L2 of 2 MiB.
constexpr int BLOCK_K = 1536;
constexpr int BLOCK_N = 32;
static_assert(BLOCK_N * BLOCK_K / 2 <= B_FLOATS);

int round_up(int value, int multiple) { return (value + multiple - 1) / multiple * multiple; }

uint32_t rounded(float value) {
  const uint32_t bits = bits_of(value);
  return (bits & 0x7fffffff) > 0x7f800000 ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

uint32_t word_of(float low, float high) { return rounded(low) | rounded(high) << 16; }

#if defined(__AVX512BF16__)

// 32 bf16: the 16 floats of `low`, then the 16 of `high`.
inline Vector halves(__m512 low, __m512 high) { return reinterpret_cast<Vector>(_mm512_cvtne2ps_pbh(high, low)); }

// Words with an element of `low` and the element of `high` at the same index.
inline Vector words_across(__m512 low, __m512 high) {
  constexpr auto order = [](int word) { return word | (word + SIDE) << 16; };
  const __m512i at = _mm512_setr_epi32(order(0), order(1), order(2), order(3), order(4), order(5), order(6), order(7),
                                       order(8), order(9), order(10), order(11), order(12), order(13), order(14),
                                       order(15));
  return reinterpret_cast<Vector>(_mm512_permutexvar_epi16(at, reinterpret_cast<__m512i>(halves(low, high))));
}

inline __m512 beside(const float *left, const float *right) {
  return _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_loadu_ps(left)), _mm256_loadu_ps(right), 1);
}

// A tile of 16 rows x 16 words, from lines of memory `stride` apart: a line for each row (`along`), or for each of the 32 terms in K.
// If `transposed`, rounding already does the first step of the transpose, at no cost.
template <bool along, bool transposed>
void tile_words(uint32_t *to, const float *from, size_t stride) {
  Vector lines[SIDE];
#pragma GCC unroll 16
  for (int i = 0; i < SIDE; i++) {
    // Both halves of a line of memory are read together.
    const int line = transposed ? i / 2 : i, part = transposed ? i % 2 : 0;
    Vector &words = lines[line + part * 8];
    const float *at = from + (along ? line * stride + part * SIDE : 2 * line * stride + part * 8);
    const float *later = from + SIDE * stride + (at - from);
    if (along) {
      __builtin_prefetch(from + i * stride + 4 * PAIRS);
      __builtin_prefetch(from + i * stride + 4 * PAIRS + SIDE);
    }
    if (along && transposed) {
      words = halves(_mm512_loadu_ps(at), _mm512_loadu_ps(at + 8 * stride));
    } else if (along) {
      words = halves(_mm512_loadu_ps(at), _mm512_loadu_ps(at + SIDE));
    } else if (transposed) {
      words = words_across(beside(at, later), beside(at + stride, later + stride));
    } else {
      words = words_across(_mm512_loadu_ps(at), _mm512_loadu_ps(at + stride));
    }
  }
  if (transposed) transpose<4>(lines);
#pragma GCC unroll 16
  for (int i = 0; i < SIDE; i++) std::memcpy(to + i * SIDE, &lines[i], sizeof lines[i]);
}

#else

template <bool along, bool transposed>
void tile_words(uint32_t *to, const float *from, size_t stride) {
  uint32_t lines[WORDS];
  for (int i = 0; i < SIDE; i++) {
    for (int j = 0; j < SIDE; j++) {
      const float *at = from + (along ? i * stride + 2 * j : 2 * i * stride + j);
      lines[i * SIDE + j] = word_of(at[0], at[along ? 1 : stride]);
    }
  }
  if (!transposed) std::copy_n(lines, WORDS, to);
  float *out = reinterpret_cast<float *>(to);
  const float *in = reinterpret_cast<const float *>(lines);
  for (int i = 0; i < SIDE && transposed; i += WIDTH) {
    for (int j = 0; j < SIDE; j += WIDTH) transpose_square(out + j * SIDE + i, SIDE, in + i * SIDE + j, SIDE);
  }
}

#endif

// Copies rows [first, first + count) of the view in tiles [count / 16][depth / 32], each as [row][pair], or as
// [pair][row] where `pairs_first`.
template <bool pairs_first>
Block copy_tiles(float *memory, View view, int first, int count, int k, int depth) {
  const bool along = view.column_stride == 1;
  const int tiles_of_rows = (count + SIDE - 1) / SIDE, steps = (depth + PAIRS - 1) / PAIRS;
  // In the order of memory: a line's tiles are neighbours.
  for (int outer = 0; outer < (along ? tiles_of_rows : steps); outer++) {
    for (int inner = 0; inner < (along ? steps : tiles_of_rows); inner++) {
      const int row = (along ? outer : inner) * SIDE, d = (along ? inner : outer) * PAIRS;
      uint32_t *to = reinterpret_cast<uint32_t *>(memory) + (row / SIDE * steps + d / PAIRS) * WORDS;
      const int rows = std::min(SIDE, count - row), elements = std::min(PAIRS, depth - d);
      const float *from = view.at(first + row, k + d);
      if (rows == SIDE && elements == PAIRS) {
        if (along) {
          tile_words<true, pairs_first>(to, from, view.row_stride);
        } else {
          tile_words<false, !pairs_first>(to, from, view.column_stride);
        }
        continue;
      }
      for (int i = 0; i < SIDE; i++) {
        for (int pair = 0; pair < SIDE; pair++) {
          const auto value = [&](int element) {
            return i < rows && element < elements ? from[i * view.row_stride + element * view.column_stride] : 0.0f;
          };
          to[pairs_first ? pair * SIDE + i : i * SIDE + pair] = word_of(value(2 * pair), value(2 * pair + 1));
        }
      }
    }
  }
  return {memory, depth};
}

#if defined(__AMX_BF16__)

// Tiles are configured for each call: the configuration belongs to the thread, and while set it makes thread switches slower.
class TileState {
 public:
  TileState() {
    struct alignas(64) {
      uint8_t palette = 1, start = 0, reserved[14] = {};
      uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    } shape;
    _tile_loadconfig(&shape);
  }
  ~TileState() { _tile_release(); }
};

// 2 x 2 tiles of sums: each operand that is loaded serves two products.
void square(float *sums, size_t stride, bool add, const uint32_t *a, const uint32_t *b, size_t panel_a, size_t panel_b,
            int steps, Ahead &ahead, int lines) {
  const size_t bytes = stride * sizeof(float);
  if (add) {
    _tile_loadd(0, sums, bytes);
    _tile_loadd(1, sums + SIDE, bytes);
    _tile_loadd(2, sums + SIDE * stride, bytes);
    _tile_loadd(3, sums + SIDE * stride + SIDE, bytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int step = 0; step < steps; step++, a += WORDS, b += WORDS) {
    // The lines of memory that the sums replace.
    for (int row = 2 * step; !add && row < 2 * step + 2 && row < 2 * SIDE; row++) {
      __builtin_prefetch(sums + row * stride, 1);
      __builtin_prefetch(sums + row * stride + SIDE, 1);
    }
    // A comes from L2: 12% faster on a Xeon.
    for (int i = 0; i < SIDE; i++) {
      __builtin_prefetch(a + 2 * WORDS + i * SIDE);
      __builtin_prefetch(a + 2 * WORDS + panel_a + i * SIDE);
    }
    ahead.fetch(lines);
    _tile_loadd(4, a, 64);
    _tile_loadd(6, b, 64);
    _tile_loadd(5, a + panel_a, 64);
    _tile_loadd(7, b + panel_b, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, sums, bytes);
  _tile_stored(1, sums + SIDE, bytes);
  _tile_stored(2, sums + SIDE * stride, bytes);
  _tile_stored(3, sums + SIDE * stride + SIDE, bytes);
}
constexpr float CYCLES = 1 / 140.0f;

#else

class TileState {
 public:
#if defined(__x86_64__)
  TileState() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040); }
  ~TileState() { _mm_setcsr(before_); }
#elif defined(__aarch64__)
  TileState() {
    __asm__ volatile("mrs %0, fpcr" : "=r"(before_));
    __asm__ volatile("msr fpcr, %0" : : "r"(before_ | 1 << 24));
  }
  ~TileState() { __asm__ volatile("msr fpcr, %0" : : "r"(before_)); }
#endif

 private:
  uint64_t before_;
};

typedef float Sums __attribute__((vector_size(SIDE * sizeof(float)), aligned(sizeof(float)), may_alias));
typedef uint32_t Words __attribute__((vector_size(SIDE * sizeof(uint32_t)), aligned(sizeof(uint32_t)), may_alias));

// sum = a * b + sum, rounded once. Without a fused instruction in double: a product of bf16 is exact there, and
// rounding the sum to double first does not change how it rounds to float.
inline void fuse(Sums &sum, float a, const Sums &b) {
#if defined(__FMA__) || defined(__aarch64__)
  sum += a * b;
#else
  for (int i = 0; i < SIDE; i++)
    sum[i] = static_cast<float>(static_cast<double>(a) * b[i] + static_cast<double>(sum[i]));
#endif
}

void square(float *sums, size_t stride, bool add, const uint32_t *a, const uint32_t *b, size_t panel_a, size_t panel_b,
            int steps, Ahead &ahead, int lines) {
  constexpr int rows = 4;
  ahead.fetch(lines * steps);
  for (int m = 0; m < 2 * SIDE; m += rows) {
    for (int n = 0; n < 2 * SIDE; n += SIDE) {
      Sums total[rows] = {};
      for (int i = 0; i < rows && add; i++) total[i] = *reinterpret_cast<const Sums *>(sums + (m + i) * stride + n);
      const uint32_t *of_a = a + m / SIDE * panel_a + m % SIDE * SIDE, *of_b = b + n / SIDE * panel_b;
      for (int step = 0; step < steps; step++, of_a += WORDS, of_b += WORDS) {
        Sums even[rows] = {}, odd[rows] = {};
        for (int pair = 0; pair < SIDE; pair++) {
          const Words words = *reinterpret_cast<const Words *>(of_b + pair * SIDE);
          const Sums low = reinterpret_cast<Sums>(words << 16), high = reinterpret_cast<Sums>(words & 0xffff0000u);
#pragma GCC unroll 4
          for (int i = 0; i < rows; i++) {
            const uint32_t word = of_a[i * SIDE + pair];
            fuse(even[i], float_of(word << 16), low);
            fuse(odd[i], float_of(word & 0xffff0000u), high);
          }
        }
        for (int i = 0; i < rows; i++) total[i] += even[i] + odd[i];
      }
      for (int i = 0; i < rows; i++) *reinterpret_cast<Sums *>(sums + (m + i) * stride + n) = total[i];
    }
  }
}
constexpr float CYCLES = 1 / 8.0f;

#endif

void multiply(Output out, Block a, Block b, int depth, int rows, int columns, Ahead ahead) {
  constexpr int side = 2 * SIDE;
  const TileState state;
  const auto panel = [](const Block &block) { return static_cast<size_t>(round_up(block.depth, PAIRS)) * SIDE / 2; };
  const size_t panel_a = panel(a), panel_b = panel(b);
  const int steps = (depth + PAIRS - 1) / PAIRS;
  // How much of `ahead` a step of a square fetches.
  const int lines = (ahead.lines() * side + rows * steps - 1) / (rows * steps);
  for (int n = 0; n < columns; n += side) {
    const int width = std::min(side, columns - n);
    for (int m = 0; m < rows; m += side) {
      const int height = std::min(side, rows - m);
      const uint32_t *of_a = reinterpret_cast<const uint32_t *>(a.data) + m / SIDE * panel_a;
      const uint32_t *of_b = reinterpret_cast<const uint32_t *>(b.data) + n / SIDE * panel_b;
      const Output to = out.at(m, n);
      // At an edge of the output, a second panel may be missing; what the first is multiplied by instead is not stored.
      const size_t next_a = height > SIDE ? panel_a : 0, next_b = width > SIDE ? panel_b : 0;
      if (height == side && width == side) {
        square(to.data, to.stride, to.add, of_a, of_b, next_a, next_b, steps, ahead, lines);
        continue;
      }
      alignas(64) float sums[side * side] = {};
      for (int i = 0; i < height && to.add; i++) std::copy_n(to.data + i * to.stride, width, sums + i * side);
      square(sums, side, to.add, of_a, of_b, next_a, next_b, steps, ahead, lines);
      for (int i = 0; i < height; i++) std::copy_n(sums + i * side, width, to.data + i * to.stride);
    }
  }
}

}  // namespace

const Engine bf16_engine = {2 * SIDE, 2 * SIDE,          2 * A_FLOATS,     BLOCK_N, BLOCK_K,
                            CYCLES,   copy_tiles<false>, copy_tiles<true>, multiply};

}  // namespace gpt2::GPT2_PATH
