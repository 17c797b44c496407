// cuRAND's host API (emulator/include/curand.h) on a CPU. Every generator is Philox: its n-th number is Philox's n-th.
#define GPT2_PROGRAM
#include "../../emulator/include/curand_kernel.h"

#include <cstdio>

struct curandGenerator_st {
  curandStatePhilox4_32_10 state;
};

namespace {

template <class T, class Make>
curandStatus_t fill(curandGenerator_t generator, T *out, size_t count, const void *caller, const Make &make) {
  using namespace gpt2_emulator;
  const OpenMemory open(out, count * sizeof *out);
  if (!generator) return CURAND_STATUS_NOT_INITIALIZED;
  const Allocation *found = find(out);
  if (found && (!found->is_live || reinterpret_cast<uintptr_t>(out + count) > found->begin + found->bytes)) {
    report("cuRAND writes numbers that are not in one live allocation", caller);
    return result(cudaErrorIllegalAddress), CURAND_STATUS_LAUNCH_FAILURE;
  }
  for (size_t i = 0; i < count; i++) out[i] = make(&generator->state);
  written(out, count * sizeof *out);
  return CURAND_STATUS_SUCCESS;
}

}  // namespace

curandStatus_t curandCreateGenerator(curandGenerator_t *generator, curandRngType_t type) {
  static bool is_said = false;
  if (type != CURAND_RNG_PSEUDO_PHILOX4_32_10 && !is_said) {
    std::fputs("notice: on a CPU every generator of cuRAND is Philox, so its numbers differ from a GPU's\n", stderr);
    is_said = true;
  }
  *generator = new curandGenerator_st;
  return curandSetPseudoRandomGeneratorSeed(*generator, 0);
}
curandStatus_t curandDestroyGenerator(curandGenerator_t generator) { return delete generator, CURAND_STATUS_SUCCESS; }
curandStatus_t curandSetPseudoRandomGeneratorSeed(curandGenerator_t generator, unsigned long long seed) {
  return curand_init(seed, 0, 0, &generator->state), CURAND_STATUS_SUCCESS;
}
curandStatus_t curandGenerateUniform(curandGenerator_t generator, float *out, size_t count) {
  return fill(generator, out, count, GPT2_CALLER, [](auto *state) { return curand_uniform(state); });
}
curandStatus_t curandGenerateNormal(curandGenerator_t generator, float *out, size_t count, float mean, float deviation) {
  if (count % 2 != 0) return CURAND_STATUS_LENGTH_NOT_MULTIPLE;
  return fill(generator, out, count, GPT2_CALLER, [=](auto *state) { return mean + deviation * curand_normal(state); });
}
curandStatus_t curandGenerateUniformDouble(curandGenerator_t generator, double *out, size_t count) {
  return fill(generator, out, count, GPT2_CALLER, [](auto *state) { return curand_uniform_double(state); });
}
curandStatus_t curandGenerateNormalDouble(curandGenerator_t generator, double *out, size_t count, double mean, double deviation) {
  if (count % 2 != 0) return CURAND_STATUS_LENGTH_NOT_MULTIPLE;
  return fill(generator, out, count, GPT2_CALLER, [=](auto *state) { return mean + deviation * curand_normal_double(state); });
}
