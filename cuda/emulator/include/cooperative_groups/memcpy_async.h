// Asynchronous copies to shared memory by all threads of a cooperative group.
#pragma once

#include "../cooperative_groups.h"
#include "../cuda_pipeline.h"

namespace cooperative_groups {

template <class Group>
GPT2_UNCHECKED void memcpy_async(const Group &group, void *to, const void *from, size_t bytes) {
  gpt2_emulator::copy_together(group, to, from, bytes, GPT2_CALLER);
}
// Copies to_count or from_count elements, whichever is fewer.
template <class Group, class T>
GPT2_UNCHECKED void memcpy_async(const Group &group, T *to, size_t to_count, const T *from, size_t from_count) {
  const size_t count = to_count < from_count ? to_count : from_count;
  gpt2_emulator::copy_together(group, to, from, sizeof(T) * count, GPT2_CALLER);
}
template <unsigned PRIOR, class Group>
GPT2_INLINE void wait_prior(const Group &group) {
  __pipeline_wait_prior(PRIOR);
  group.sync();
}
template <class Group>
GPT2_INLINE void wait(const Group &group) {
  wait_prior<0>(group);
}

}  // namespace cooperative_groups
