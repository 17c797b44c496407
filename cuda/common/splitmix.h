// Random numbers by their index in a stream, so that each can be computed without the earlier numbers.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define GPT2_ANYWHERE __host__ __device__
#else
#define GPT2_ANYWHERE
#endif

namespace gpt2 {

// Number `index` (from 0) of SplitMix64 (Steele et al. 2014) seeded with 0.
GPT2_ANYWHERE inline uint64_t splitmix64(uint64_t index) {
  uint64_t mixed = (index + 1) * 0x9e3779b97f4a7c15u;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
  return mixed ^ (mixed >> 31);
}

// The random number r of gpt2_sample (gpt2.h), for a sequence's seed and position.
GPT2_ANYWHERE inline uint64_t chance_of(int32_t seed, int32_t position) {
  return splitmix64(static_cast<uint64_t>(static_cast<uint32_t>(seed)) << 32 | static_cast<uint32_t>(position));
}

}  // namespace gpt2
