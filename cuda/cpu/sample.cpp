// Chooses the next token of each sequence; see gpt2_sample. Likelihoods become integers (weights), so that the cuts of
// top-k and top-p and the choice itself do not depend on the order of summation.
#include <algorithm>
#include <cmath>

#include "../common/splitmix.h"
#include "kernels.h"
#include "math.h"

namespace gpt2::GPT2_PATH {

namespace {

// The weights to keep: all weights over `weight`, and the first `ties` weights equal to `weight`.
struct Cut {
  uint32_t weight;
  uint64_t ties;
};

// The cut that keeps the largest weights, as few as have measures (top-k: 1; top-p: the weight) with a sum of at least
// `target`. The sum over all weights must reach `target`. Finds the least kept weight byte by byte, highest byte first.
template <class Measure>
Cut cut_at(const uint32_t *weights, int V, uint64_t target, Measure measure) {
  uint64_t found = 0, before = 0;  // the cut's bytes so far, and the measure of larger weights
  for (int shift = 24; shift >= 0; shift -= 8) {
    uint64_t sums[256] = {};
    for (int i = 0; i < V; i++) {
      const uint64_t weight = weights[i];
      if (weight >> (shift + 8) == found) sums[weight >> shift & 255] += measure(weights[i]);
    }
    uint64_t digit = 255;
    while (digit > 0 && before + sums[digit] < target) before += sums[digit--];
    found = found << 8 | digit;
  }
  const auto weight = static_cast<uint32_t>(found);
  const uint64_t each = std::max<uint64_t>(measure(weight), 1);
  return {weight, (target - before + each - 1) / each};
}

uint64_t sum_of_kept(const uint32_t *weights, int V, Cut cut) {
  uint64_t sum = cut.ties * cut.weight;
  for (int i = 0; i < V; i++) sum += weights[i] > cut.weight ? weights[i] : 0;
  return sum;
}

int choose(uint32_t *weights, const float *logits, int V, float temperature, int top_k, float top_p, uint64_t chance) {
  int likeliest = 0;
  for (int i = 0; i < V; i++) {
    if (!std::isfinite(logits[i])) return -1;
    if (logits[i] > logits[likeliest]) likeliest = i;
  }
  if (temperature == 0) return likeliest;

  const float largest = logits[likeliest];
  for (int i = 0; i < V; i++) {
    weights[i] = static_cast<uint32_t>(exponential((logits[i] - largest) / temperature) * 0x1p31f + 0.5f);
  }
  // This cut keeps every weight over 0. The number of zeros does not matter, because a weight of 0 is never chosen.
  Cut cut = {0, 0};
  if (top_k > 0 && top_k < V) cut = cut_at(weights, V, top_k, [](uint32_t) { return uint64_t{1}; });
  uint64_t total = sum_of_kept(weights, V, cut);
  if (top_p < 1) {
    const auto target = static_cast<uint64_t>(std::ceil(static_cast<double>(top_p) * static_cast<double>(total)));
    cut = cut_at(weights, V, std::max<uint64_t>(target, 1), [](uint32_t weight) { return uint64_t{weight}; });
    total = sum_of_kept(weights, V, cut);
  }
  const auto place = static_cast<uint64_t>(static_cast<unsigned __int128>(chance) * total >> 64);
  uint64_t running = 0;
  for (int i = 0; i < V; i++) {
    if (weights[i] > cut.weight) {
      running += weights[i];
    } else if (weights[i] == cut.weight && cut.ties > 0) {
      cut.ties--;
      running += weights[i];
    }
    if (running > place) return i;
  }
  return likeliest;
}

}  // namespace

int64_t sample_scratch(int, int B, int V) { return static_cast<int64_t>(B) * V; }

void sample(Task task, int32_t *tokens, int32_t *positions, const float *logits, const int32_t *seeds, int B, int S,
            int V, int Vp, float temperature, int top_k, float top_p) {
  auto *scratch = reinterpret_cast<uint32_t *>(task.scratch);
  task.pool.each(B, [&](int64_t b) {
    const int position = positions[b];
    if (position < 0 || position >= S) return;
    tokens[static_cast<size_t>(b) * (S + 1) + position + 1] =
        choose(scratch + static_cast<size_t>(b) * V, logits + static_cast<size_t>(b) * Vp, V, temperature, top_k, top_p,
               chance_of(seeds[b], position));
    positions[b] = position + 1;
  });
}

}  // namespace gpt2::GPT2_PATH
