// Prefix sums over the lanes of a group.
#pragma once

#include "reduce.h"

namespace cooperative_groups {

template <class Group, class T, class Join = plus<T>>
GPT2_INLINE T inclusive_scan(const warp_group<Group> &group, T value, const Join &join = {}) {
  for (unsigned lanes = 1; lanes < group.size(); lanes *= 2) {
    const T before = group.shfl_up(value, lanes);
    if (group.thread_rank() >= lanes) value = join(before, value);
  }
  return value;
}
// Rank 0 gets T(), the empty sum.
template <class Group, class T, class Join = plus<T>>
GPT2_INLINE T exclusive_scan(const warp_group<Group> &tile, T value, const Join &join = {}) {
  const T before = tile.shfl_up(inclusive_scan(tile, value, join), 1);
  return tile.thread_rank() > 0 ? before : T();
}

}  // namespace cooperative_groups
