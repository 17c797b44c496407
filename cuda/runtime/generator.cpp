// For both libraries: MT19937, and normally distributed numbers equal to PyTorch's, so that initial weights are equal.
#include <algorithm>
#include <cmath>
#include <new>
#include <random>

#include "../gpt2.h"
#include "threads.h"

struct gpt2_generator {
  std::mt19937 twister;

  explicit gpt2_generator(uint32_t seed) : twister(seed) {}

  // A uniform float as PyTorch draws it: the low 24 bits.
  float uniform() { return static_cast<float>(twister() & 0xffffff) * (1.0f / 16777216); }
};

namespace {

constexpr int group = 16;

// The fewest groups per thread: fewer take less time than starting a thread.
constexpr int64_t groups_of_thread = 1024;

// The Box-Muller transform (1958) of 16 uniform numbers: the first 8 give radii, the others angles. Angles are computed
// in double and then rounded, as PyTorch does.
void box_muller(float *values, float mean, float standard_deviation) {
  for (int j = 0; j < group / 2; j++) {
    const float radius = std::sqrt(-2.0f * std::log(1.0f - values[j]));
    const float angle = static_cast<float>(2.0 * 3.14159265358979323846 * values[j + group / 2]);
    values[j] = radius * std::cos(angle) * standard_deviation + mean;
    values[j + group / 2] = radius * std::sin(angle) * standard_deviation + mean;
  }
}

}  // namespace

gpt2_generator *gpt2_generator_create(uint32_t seed) { return new (std::nothrow) gpt2_generator(seed); }

int gpt2_generator_destroy(gpt2_generator *generator) {
  delete generator;
  return GPT2_OK;
}

int gpt2_generator_normal(gpt2_generator *generator, float *normals, int64_t count, float mean,
                          float standard_deviation) {
  if (!generator || !normals || count < group) return GPT2_INVALID_ARGUMENT;
  const int64_t grouped = count / group * group;
  for (int64_t i = 0; i < count; i++) normals[i] = generator->uniform();
  // Drawing uniform numbers is serial. The transform takes several times as long, and runs in parallel.
  const int64_t groups = grouped / group;
  const int64_t useful = std::min<int64_t>(gpt2::processor_count(), groups / groups_of_thread + 1);
  gpt2::ThreadPool(static_cast<int>(useful)).each(groups, [&](int64_t i) {
    box_muller(normals + i * group, mean, standard_deviation);
  });
  if (grouped < count) {
    float *tail = normals + count - group;
    for (int i = 0; i < group; i++) tail[i] = generator->uniform();
    box_muller(tail, mean, standard_deviation);
  }
  return GPT2_OK;
}
