// Matmuls by AMX, or by vectors with the same bits. Operands are rounded to bf16 (to nearest, ties to even) when they
// are copied; sums are in fp32. The copies are tiles of 16 x 16 words, a word being a pair of neighbours in K: A is
// [M / 32][K / 32][part][2][row][pair], B is [N / 32][K / 32][part][2][pair][column], padded with zeros. The
// micro-kernel reads both copies in order: on a Xeon, L2 then supplies them 1.2 times as fast.
//
// On AMX, fp32 matmuls have operands of three parts. A float is the sum of three bf16: the float rounded, then twice
// the remainder rounded. Of the nine products of two floats' parts, six are added; others are below fp32's precision.
//
// All sums are in AMX's order: of each 32 terms, the 16 even ones and the 16 odd ones are two chains of fused
// multiply-adds from 0; the sum of both chains is added to the total. Denormal operands and results are zero. A total
// continues over blocks of K, so the length of the blocks changes no bit.
#include "kernels.h"
#include "math.h"
#include "vectors.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace gpt2::GPT2_PATH {

namespace {

constexpr int SIDE = 16;            // rows, columns and pairs of a tile
constexpr int PAIRS = 2 * SIDE;     // elements of K in a tile
constexpr int WORDS = SIDE * SIDE;  // words of a tile
constexpr int SQUARE = 2 * SIDE;    // rows and columns of the output that are computed together

// The length of a block in K, over which sums stay in registers. With 1536, the 36 matmuls of benchmarks/cpu.md run at
// 722 GFLOP/s on a Xeon, with 768 at 673. A block of A (768 KiB) and 32 columns of B (96 KiB) stay in 2 MiB of L2.
constexpr int BLOCK_K = 1536;
static_assert(SQUARE * BLOCK_K / 2 <= B_FLOATS);

// For an output that bypasses the caches, sums are kept in a buffer and K is divided into chunks of about 256: 32 columns
// of B (16 KiB) stay in L1 while 512 rows of A pass. d12's weight gradients then run at 1,100 GFLOP/s a core instead of
// 960. For other outputs, copying the sums from the buffer costs more than the chunks gain.
constexpr int CHUNK_STEPS = 256 / PAIRS;
constexpr int CHUNK_M = 512;

// The length of a block in K for operands in three parts. Its sums are added to the output outside of the AMX tiles: at
// K = 3072 the error is 0.4 times the error of sums that stay in tiles.
constexpr int PARTS_BLOCK_K = 384;
static_assert(copied_floats(SQUARE * PARTS_BLOCK_K) <= B_FLOATS);

int round_up(int value, int multiple) { return (value + multiple - 1) / multiple * multiple; }

using gpt2::bf16_of;
uint32_t bf16_of(uint16_t value) { return value; }
float exact(float value) { return value; }
float exact(uint16_t value) { return float_of(uint32_t{value} << 16); }

// A word: two neighbours in K as bf16, the first in the low half.
template <class Element>
uint32_t word_of(Element low, Element high) {
  return bf16_of(low) | bf16_of(high) << 16;
}

// Copies a tile of 16 rows x 16 words (32 bf16 terms of K) from lines of memory `stride` apart: a line for each row
// (`along`), or for each of the 32 terms. `transposed`: exchanges the tile's rows and columns.
template <int, bool along, bool transposed, class Element>
void tile_words(uint32_t *to, const Element *from, const Element *, size_t stride) {
  uint32_t memory[WORDS], *lines = transposed ? memory : to;
  for (int i = 0; i < SIDE; i++) {
    const Element *line = from + (along ? i : 2 * i) * stride;
    for (int j = 0; j < SIDE; j++) {
      lines[i * SIDE + j] = along ? word_of(line[2 * j], line[2 * j + 1]) : word_of(line[j], line[stride + j]);
    }
  }
  float *out = reinterpret_cast<float *>(to);
  const float *in = reinterpret_cast<const float *>(lines);
  for (int i = 0; i < SIDE && transposed; i += WIDTH) {
    for (int j = 0; j < SIDE; j += WIDTH) transpose_square(out + j * SIDE + i, SIDE, in + i * SIDE + j, SIDE);
  }
}

#if defined(__AVX512BF16__)

// Rounds 32 floats to bf16: 16 of `low`, then 16 of `high`, or alternately (`across`). The remainders replace the floats.
template <bool across>
inline Vector rounded(__m512 &low, __m512 &high) {
  constexpr auto order = [](int word) { return word | (word + SIDE) << 16; };
  const __m512i at = _mm512_setr_epi32(order(0), order(1), order(2), order(3), order(4), order(5), order(6), order(7),
                                       order(8), order(9), order(10), order(11), order(12), order(13), order(14),
                                       order(15));
  const __m512i halves = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
  const __m512i words = _mm512_permutexvar_epi16(at, halves);
  low -= _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
  high -= _mm512_castsi512_ps(_mm512_and_epi32(words, _mm512_set1_epi32(0xffff0000)));
  return reinterpret_cast<Vector>(across ? words : halves);
}

inline __m512 beside(const float *left, const float *right) {
  return _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_loadu_ps(left)), _mm256_loadu_ps(right), 1);
}

// If `transposed`, rounding already does the first step of the transpose, at no cost. Prefetches the later tile
// `ahead`: in fp32 this makes a training step 1 to 3% shorter (a Xeon with AMX), in bf16 only if `along`.
template <int parts, bool along, bool transposed>
void tile_words(uint32_t *to, const float *from, const float *ahead, size_t stride) {
  Vector lines[parts][SIDE];
#pragma GCC unroll 16
  for (int i = 0; i < SIDE; i++) {
    // Both halves of a line of memory are read together.
    const int line = transposed ? i / 2 : i, half = transposed ? i % 2 : 0;
    const float *at = from + (along ? line * stride + half * SIDE : 2 * line * stride + half * 8);
    const float *later = from + SIDE * stride + (at - from);
    if (along || parts > 1) {
      __builtin_prefetch(ahead + (along ? i : 2 * i) * stride);
      __builtin_prefetch(ahead + (along ? i * stride + SIDE : (2 * i + 1) * stride));
    }
    __m512 low = !along && transposed ? beside(at, later) : _mm512_loadu_ps(at);
    __m512 high = !transposed ? _mm512_loadu_ps(at + (along ? SIDE : stride))
                  : along     ? _mm512_loadu_ps(at + 8 * stride)
                              : beside(at + stride, later + stride);
#pragma GCC unroll 3
    for (int part = 0; part < parts; part++) lines[part][line + half * 8] = rounded<!along>(low, high);
  }
#pragma GCC unroll 3
  for (int part = 0; part < parts; part++) {
    if (transposed) transpose<4>(lines[part]);
#pragma GCC unroll 16
    for (int i = 0; i < SIDE; i++) std::memcpy(to + 2 * part * WORDS + i * SIDE, &lines[part][i], sizeof(Vector));
  }
}

#endif

// Copies rows [first, first + count) of the view's columns [k, k + depth) in tiles [count / 32][length / 32][part][2]
// of 16 rows (two tiles for 32 rows) and 16 pairs of columns. A tile is [row][pair], or [pair][row] if `pairs_first`.
template <int parts, bool pairs_first, class Element>
Block copy_tiles(float *memory, View view, int first, int count, int k, int depth, int length) {
  const bool along = view.column_stride == 1;
  const int tiles_of_rows = (count + SIDE - 1) / SIDE, steps = (depth + PAIRS - 1) / PAIRS;
  const int outers = along ? tiles_of_rows : steps, inners = along ? steps : tiles_of_rows;
  const auto at = [&](int outer, int inner) {
    return static_cast<const Element *>(
        view.at(first + (along ? outer : inner) * SIDE, k + (along ? inner : outer) * PAIRS));
  };
  // Loops in the order of memory, where the tiles of a line are neighbours.
  for (int outer = 0; outer < outers; outer++) {
    for (int inner = 0; inner < inners; inner++) {
      const int row = (along ? outer : inner) * SIDE, d = (along ? inner : outer) * PAIRS;
      const int later = std::min(outer * inners + inner + 4, outers * inners - 1);
      const int tile = (row / SQUARE * (round_up(length, PAIRS) / PAIRS) + d / PAIRS) * 2 * parts + row / SIDE % 2;
      uint32_t *to = reinterpret_cast<uint32_t *>(memory) + tile * WORDS;
      const int rows = std::min(SIDE, count - row), elements = std::min(PAIRS, depth - d);
      const Element *from = at(outer, inner), *ahead = at(later / inners, later % inners);
      if (rows == SIDE && elements == PAIRS) {
        if (along) {
          tile_words<parts, true, pairs_first>(to, from, ahead, view.row_stride);
        } else {
          tile_words<parts, false, !pairs_first>(to, from, ahead, view.column_stride);
        }
        continue;
      }
      for (int i = 0; i < SIDE; i++) {
        for (int pair = 0; pair < SIDE; pair++) {
          const auto value = [&](int element) {
            return i < rows && element < elements ? exact(from[i * view.row_stride + element * view.column_stride])
                                                  : 0.0f;
          };
          float low = value(2 * pair), high = value(2 * pair + 1);
          for (int part = 0; part < parts; part++) {
            const uint32_t word = word_of(low, high);
            to[2 * part * WORDS + (pairs_first ? pair * SIDE + i : i * SIDE + pair)] = word;
            low -= float_of(word << 16);
            high -= float_of(word & 0xffff0000);
          }
        }
      }
    }
  }
  return {memory, length};
}

Block copy_a(float *memory, View view, int first, int count, int k, int depth, int length) {
  const auto copy = view.is_rounded ? copy_tiles<1, false, uint16_t> : copy_tiles<1, false, float>;
  return copy(memory, view, first, count, k, depth, length);
}

#if defined(__AMX_BF16__)

// Configures AMX's tiles for one call. A configuration belongs to a thread, and slows thread switches while it is set.
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

// Multiplies tiles 4 and 5 (of A) by tiles 6 and 7 (of B), and adds the four products to tiles 0 to 3.
inline void multiply_tiles() {
  _tile_dpbf16ps(0, 4, 6);
  _tile_dpbf16ps(2, 5, 6);
  _tile_dpbf16ps(1, 4, 7);
  _tile_dpbf16ps(3, 5, 7);
}

// Computes 2 x 2 tiles of sums over `steps` steps of 32 in K: each tile of an operand serves two products.
template <int parts>
void square(float *sums, size_t stride, bool add, const uint32_t *a, const uint32_t *b, int second_a, int second_b,
            int steps, Ahead &ahead, int lines, Output to) {
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
  for (int step = 0; step < steps; step++, a += 2 * parts * WORDS, b += 2 * parts * WORDS) {
    for (int row = 2 * step; !add && !to.stream && row < 2 * step + 2 && row < 2 * SIDE; row++) {
      __builtin_prefetch(to.data + row * to.stride, 1);
      __builtin_prefetch(to.data + row * to.stride + SIDE, 1);
    }
    ahead.fetch(lines);
    const auto load_a = [&](int part) {
      _tile_loadd(4, a + 2 * part * WORDS, 64);
      _tile_loadd(5, a + 2 * part * WORDS + second_a, 64);
    };
    const auto load_b = [&](int part) {
      _tile_loadd(6, b + 2 * part * WORDS, 64);
      _tile_loadd(7, b + 2 * part * WORDS + second_b, 64);
    };
    load_a(0);
    load_b(0);
    multiply_tiles();
    if constexpr (parts == 3) {
      load_a(1);
      multiply_tiles();
      load_a(2);
      multiply_tiles();
      load_a(1);
      load_b(1);
      multiply_tiles();
      load_a(0);
      multiply_tiles();
      load_b(2);
      multiply_tiles();
    }
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

// sum = a * b + sum, rounded once. Without a fused instruction, computes in double: a * b of two bf16 is exact there,
// and rounding the sum to double first does not change how it rounds to float.
inline void fuse(Sums &sum, float a, const Sums &b) {
#if defined(__FMA__) || defined(__aarch64__)
  sum += a * b;
#else
  for (int i = 0; i < SIDE; i++)
    sum[i] = static_cast<float>(static_cast<double>(a) * b[i] + static_cast<double>(sum[i]));
#endif
}

template <int>
void square(float *sums, size_t stride, bool add, const uint32_t *a, const uint32_t *b, int second_a, int second_b,
            int steps, Ahead &ahead, int lines, Output) {
  constexpr int rows = 4;
  ahead.fetch(lines * steps);
  for (int m = 0; m < 2 * SIDE; m += rows) {
    for (int n = 0; n < 2 * SIDE; n += SIDE) {
      Sums total[rows] = {};
      for (int i = 0; i < rows && add; i++) total[i] = *reinterpret_cast<const Sums *>(sums + (m + i) * stride + n);
      const uint32_t *of_a = a + m / SIDE * second_a + m % SIDE * SIDE, *of_b = b + n / SIDE * second_b;
      for (int step = 0; step < steps; step++, of_a += 2 * WORDS, of_b += 2 * WORDS) {
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

// Writes a square's finished sums [rows,columns] to the output, or passes them to its `finish`.
void write(Output to, float *sums, int rows, int columns) {
  if (to.finish) return (*to.finish)(to.row, to.column, sums, SQUARE, rows, columns);
  for (int i = 0; i < rows; i++) {
    float *line = to.data + i * to.stride;
    if (to.stream) {
      stream_line(line, sums + i * SQUARE, columns);
    } else {
      std::copy_n(sums + i * SQUARE, columns, line);
    }
  }
}

template <int parts>
void multiply(Output out, Block a, Block b, int depth, int rows, int columns, Ahead ahead) {
  const TileState state;
  constexpr int step = 2 * parts * WORDS;
  const auto panel = [](Block block) { return static_cast<size_t>(round_up(block.depth, PAIRS)) * parts * SIDE; };
  const size_t panel_a = panel(a), panel_b = panel(b);
  const int steps = round_up(depth, PAIRS) / PAIRS;
  const int chunks = parts == 1 && out.stream ? std::max(1, steps / CHUNK_STEPS) : 1;
  const int chunk = (steps + chunks - 1) / chunks;
  // Cache lines of `ahead` that each step of a square prefetches.
  const int lines = (ahead.lines() * SQUARE + rows * steps - 1) / (rows * steps);
  alignas(64) float memory[CHUNK_M * SQUARE];

  // Adds a chunk's steps, from `first` on, to the sums of the square at row m, column n. The last chunk writes them.
  const auto add_chunk = [&](int m, int n, int first, float *sums) {
    const uint32_t *of_a = reinterpret_cast<const uint32_t *>(a.data) + m / SQUARE * panel_a + first * step;
    const uint32_t *of_b = reinterpret_cast<const uint32_t *>(b.data) + n / SQUARE * panel_b + first * step;
    const int height = std::min(SQUARE, rows - m), width = std::min(SQUARE, columns - n);
    // At an edge of the output a second tile may be missing: the first takes its place, and the result is not stored.
    const int second_a = height > SIDE ? WORDS : 0, second_b = width > SIDE ? WORDS : 0;
    const int count = std::min(chunk, steps - first);
    const Output to = out.at(m, n);
    const bool is_whole = height == SQUARE && width == SQUARE, continues = parts == 1 && to.add;
    if (parts == 1 && is_whole && !to.stream && !to.finish) {
      return square<parts>(to.data, to.stride, continues, of_a, of_b, second_a, second_b, count, ahead, lines, to);
    }
    for (int i = 0; i < height && continues && first == 0; i++) {
      std::copy_n(to.data + i * to.stride, width, sums + i * SQUARE);
    }
    square<parts>(sums, SQUARE, continues || first > 0, of_a, of_b, second_a, second_b, count, ahead, lines, to);
    if (first + count < steps) return;
    for (int i = 0; i < height && parts > 1 && to.add; i++) {
      add_line(sums + i * SQUARE, to.data + i * to.stride, sums + i * SQUARE, width);
    }
    write(to, sums, height, width);
  };
  for (int n = 0; n < columns; n += SQUARE) {
    for (int top = 0; top < rows; top += CHUNK_M) {
      for (int first = 0; first < steps; first += chunk) {
        for (int m = top; m < std::min(rows, top + CHUNK_M); m += SQUARE) {
          add_chunk(m, n, first, memory + (chunks > 1 ? (m - top) * SQUARE : 0));
        }
      }
    }
  }
}

}  // namespace

const Engine bf16_engine = {
    SQUARE, SQUARE, 2 * A_ELEMENTS, BLOCK_K, true, CYCLES, 0, copy_a, copy_tiles<1, true, float>, multiply<1>};

#if defined(__AMX_BF16__)
const Engine fp32_engine = {SQUARE,
                            SQUARE,
                            A_ELEMENTS,
                            PARTS_BLOCK_K,
                            false,
                            6 * CYCLES,
                            8,
                            copy_tiles<3, false, float>,
                            copy_tiles<3, true, float>,
                            multiply<3>};
#endif

}  // namespace gpt2::GPT2_PATH
