// Reductions over the lanes of a group. A separate header, because a program may define another `reduce`.
#pragma once

#include "../cooperative_groups.h"

namespace cooperative_groups {

#define GPT2_JOIN(name, expression)                        \
  template <class T>                                       \
  struct name {                                            \
    T operator()(T a, T b) const { return expression; }    \
  };
GPT2_JOIN(plus, a + b)
GPT2_JOIN(greater, a < b ? b : a)
GPT2_JOIN(less, b < a ? b : a)
GPT2_JOIN(bit_and, a &b)
GPT2_JOIN(bit_or, a | b)
GPT2_JOIN(bit_xor, a ^ b)

// Joins values in the order of a GPU's shuffles if the size is a power of two, else in the order of ranks.
template <class Group, class T, class Join>
GPT2_INLINE T reduce(const warp_group<Group> &group, T value, const Join &join) {
  const unsigned size = group.size();
  if ((size & (size - 1)) == 0) {
    for (unsigned lanes = size / 2; lanes > 0; lanes /= 2) value = join(value, group.shfl_xor(value, lanes));
    return value;
  }
  T sum = group.shfl(value, 0);
  for (unsigned rank = 1; rank < size; rank++) sum = join(sum, group.shfl(value, int(rank)));
  return sum;
}

}  // namespace cooperative_groups
