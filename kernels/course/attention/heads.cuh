// Code of attention's faster rungs: the places of a head's rows. ELEMENT is float or __nv_bfloat16. qkv is [B,T,3,NH,HS], out and dout
// are [B,T,NH,HS], lse is [B,NH,T]; a head is a number in [0, B * NH).
#pragma once

#include <cmath>
#include <cuda_bf16.h>

using element = ELEMENT;

// One row of HS elements for each position t.
template <class T>
struct Rows {
  T *data;
  size_t stride;

  __device__ T *operator[](int t) const { return data + t * stride; }
};

// A head of out or dout.
template <class E>
__device__ Rows<E> rows_of(E *out, int head, int T, int NH, int HS) {
  const size_t C = static_cast<size_t>(NH) * HS;
  return {out + head / NH * T * C + head % NH * HS, C};
}

// A head's queries (part 0), keys (1) or values (2) in qkv.
template <class E>
__device__ Rows<E> rows_of(E *qkv, int part, int head, int T, int NH, int HS) {
  const size_t C = static_cast<size_t>(NH) * HS;
  return {qkv + head / NH * T * 3 * C + part * C + head % NH * HS, 3 * C};
}
