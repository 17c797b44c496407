// wmma: matmuls by a warp, of matrices whose elements are spread over its lanes. CUDA leaves the layout of a fragment undefined; here lane
// l has num_elements elements of the row-major matrix, from element l * num_elements on.
#pragma once

#include "../ptx.h"
#include "cuda_bf16.h"
#include "cuda_fp16.h"

namespace nvcuda::wmma {

struct row_major {};
struct col_major {};
struct matrix_a {};
struct matrix_b {};
struct accumulator {};
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32 {};
}  // namespace precision

inline float __float_to_tf32(float value) { return gpt2_emulator::ptx::to_tf32(value); }

template <class Use, int M, int N, int K, class T, class Layout = void>
struct fragment {
  static constexpr bool is_tf32 = std::is_same_v<T, precision::tf32>, is_sum = std::is_same_v<Use, accumulator>;
  static_assert((M == 16 && N == 16 && K == (is_tf32 ? 8 : 16)) || (M == 32 && N == 8 && K == 16) || (M == 8 && N == 32 && K == 16) ||
                    (M == 16 && N == 16 && K == 8 && is_sum) || (M == 8 && N == 8 && K == 4),
                "tensor cores have no matrices of this shape");
  using element_type = std::conditional_t<is_tf32, float, T>;
  static constexpr int rows = std::is_same_v<Use, matrix_b> ? K : M, columns = std::is_same_v<Use, matrix_a> ? K : N;
  static constexpr int num_elements = rows * columns / 32, num_storage_elements = num_elements;
  element_type x[num_elements];
};

template <class Use, int M, int N, int K, class T, class Layout, class Value>
void fill_fragment(fragment<Use, M, N, K, T, Layout> &to, const Value &value) {
  for (auto &x : to.x) x = value;
}

GPT2_UNCHECKED inline void check_stride(size_t bytes) {
  if (bytes % 16 != 0) gpt2_emulator::fail("uses a matrix whose rows are not a multiple of 16 bytes apart", nullptr, 0, GPT2_CALLER);
}
// Calls visit(x, element of the matrix in memory) for each element x of the calling lane's fragment.
template <class Fragment, class T, class Visit>
GPT2_INLINE void each_element(Fragment &fragment, T *memory, unsigned stride, bool is_by_rows, const Visit &visit) {
  check_stride(stride * sizeof(T));
  for (int i = 0; i < Fragment::num_elements; i++) {
    const unsigned at = gpt2_emulator::lane() * Fragment::num_elements + i, row = at / Fragment::columns, column = at % Fragment::columns;
    visit(fragment.x[i], memory[is_by_rows ? size_t(row) * stride + column : size_t(column) * stride + row]);
  }
}

template <class Use, int M, int N, int K, class T, class Layout, class From>
GPT2_INLINE void load_matrix_sync(fragment<Use, M, N, K, T, Layout> &to, const From *from, unsigned stride) {
  each_element(to, from, stride, std::is_same_v<Layout, row_major>, [](auto &x, const From &element) { x = element; });
}
template <int M, int N, int K, class T>
GPT2_INLINE void load_matrix_sync(fragment<accumulator, M, N, K, T> &to, const T *from, unsigned stride, layout_t layout) {
  each_element(to, from, stride, layout == mem_row_major, [](T &x, const T &element) { x = element; });
}
template <int M, int N, int K, class T>
GPT2_INLINE void store_matrix_sync(T *to, const fragment<accumulator, M, N, K, T> &from, unsigned stride, layout_t layout) {
  each_element(from, to, stride, layout == mem_row_major, [](const T &x, T &element) { element = x; });
}

// A lane's elements of a fragment, converted to the type of the sums. tf32 loses its lower 13 bits, as in tensor cores.
template <class Sum, class Fragment>
struct Operand {
  static constexpr int count = Fragment::num_elements;
  Sum x[count];

  GPT2_UNCHECKED explicit Operand(const Fragment &from) {
    for (int i = 0; i < count; i++) {
      if constexpr (Fragment::is_tf32) x[i] = gpt2_emulator::ptx::tf32::get(__float_as_uint(from.x[i]), 0);
      else if constexpr (sizeof from.x[i] == 2) x[i] = Sum(float(from.x[i]));
      else x[i] = Sum(from.x[i]);
    }
  }
};

// Sums are fp64, rounded once, or integers modulo 2^32. Each lane converts its operands once, before the lanes exchange them. A lane's sums
// lie in one row, so that the inner loop adds products to consecutive sums, as vectors.
template <class D, class A, class B, class C>
GPT2_UNCHECKED void mma_sync(D &d, const A &a, const B &b, const C &c, bool saturates = false) {
  constexpr bool is_integer = std::is_integral_v<typename C::element_type>;
  using Sum = std::conditional_t<is_integer, unsigned, double>;
  using Left = Operand<Sum, A>;
  using Right = Operand<Sum, B>;
  struct Operands {
    Left left;
    Right right;
  };
  if (saturates && !is_integer) {
    gpt2_emulator::fail("asks mma_sync to saturate sums of floats, which is emulated only for integers", nullptr, 0, GPT2_CALLER);
  }
  const Operands own = {Left(a), Right(b)};
  const Operands *lanes[32];
  gpt2_emulator::meet(own, lanes, GPT2_CALLER);
  constexpr int count = D::num_elements, together = count < Right::count ? count : Right::count;
  static_assert(A::rows == D::rows && B::columns == D::columns && A::columns == B::rows && C::num_elements == count && C::columns == D::columns,
                "mma_sync takes fragments of one shape");
  static_assert(D::columns % count == 0 && count % together == 0 && Right::count % together == 0);
  const int first = int(gpt2_emulator::lane()) * count, row = first / D::columns, column = first % D::columns;
  Operand<Sum, C> sums(c);
  for (int k = 0; k < A::columns; k++) {
    const int at = row * A::columns + k;
    const Sum left = lanes[at / Left::count]->left.x[at % Left::count];
    for (int i = 0; i < count; i += together) {
      const int from = k * B::columns + column + i;
      const Sum *right = lanes[from / Right::count]->right.x + from % Right::count;
      for (int j = 0; j < together; j++) sums.x[i + j] += left * right[j];
    }
  }
  for (int i = 0; i < count; i++) {
    if constexpr (is_integer) {
      // The sum of products fits 32 bits; only the sum with c may not.
      const long long exact = c.x[i] + static_cast<long long>(static_cast<int>(sums.x[i] - static_cast<unsigned>(c.x[i])));
      const auto [least, most] = std::pair<long long, long long>(INT_MIN, INT_MAX);
      d.x[i] = saturates ? int(min(max(exact, least), most)) : int(sums.x[i]);
    } else {
      d.x[i] = static_cast<typename D::element_type>(sums.x[i]);
    }
  }
  gpt2_emulator::part(GPT2_CALLER);
}

}  // namespace nvcuda::wmma
