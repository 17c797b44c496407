// cuRAND's generators for host code (emulator/include/curand.h): number n of a generator is number n of Philox's sequence.
#define GPT2_PROGRAM
#include "../../emulator/include/curand_kernel.h"

#include <cstdio>
#include <string>

struct curandGenerator_st {
  unsigned long long seed = 0, offset = 0;
};

namespace {

// Fills `out` by make(first bits, second bits), four numbers for each block of four; or two of 64 bits.
template <class T, class Make>
curandStatus_t fill(curandGenerator_t generator, T *out, size_t count, const void *caller, const Make &make) {
  using namespace gpt2_emulator;
  if (!generator) return CURAND_STATUS_NOT_INITIALIZED;
  const Allocation *found = find(out);
  if (found && (!found->is_live || reinterpret_cast<uintptr_t>(out) - found->begin + count * sizeof(T) > found->bytes)) {
    report(("cuRAND writes " + std::to_string(count * sizeof(T)) + " bytes, which are not in one live allocation").c_str(), caller);
    return result(cudaErrorIllegalAddress), CURAND_STATUS_LAUNCH_FAILURE;
  }
  curandStatePhilox4_32_10 state;
  curand_init(generator->seed, 0, generator->offset, &state);
  for (size_t i = 0; i < count; i++) out[i] = make(&state);
  generator->offset += count * (sizeof(T) / 4);
  if (found) written(out, count * sizeof(T));
  return CURAND_STATUS_SUCCESS;
}

}  // namespace

curandStatus_t curandCreateGenerator(curandGenerator_t *generator, curandRngType_t type) {
  static bool is_said = false;
  if (type != CURAND_RNG_PSEUDO_PHILOX4_32_10 && !is_said) {
    std::fputs("notice: on a CPU every generator of cuRAND is Philox, so its numbers differ from a GPU's\n", stderr);
    is_said = true;
  }
  return *generator = new curandGenerator_st, CURAND_STATUS_SUCCESS;
}
curandStatus_t curandDestroyGenerator(curandGenerator_t generator) { return delete generator, CURAND_STATUS_SUCCESS; }
curandStatus_t curandSetPseudoRandomGeneratorSeed(curandGenerator_t generator, unsigned long long seed) {
  *generator = {seed, 0};
  return CURAND_STATUS_SUCCESS;
}
curandStatus_t curandSetGeneratorOffset(curandGenerator_t generator, unsigned long long offset) {
  generator->offset = offset;
  return CURAND_STATUS_SUCCESS;
}
curandStatus_t curandGenerate(curandGenerator_t generator, unsigned *out, size_t count) {
  return fill(generator, out, count, GPT2_CALLER, [](auto *state) { return curand(state); });
}
curandStatus_t curandGenerateUniform(curandGenerator_t generator, float *out, size_t count) {
  return fill(generator, out, count, GPT2_CALLER, [](auto *state) { return curand_uniform(state); });
}
curandStatus_t curandGenerateUniformDouble(curandGenerator_t generator, double *out, size_t count) {
  return fill(generator, out, count, GPT2_CALLER, [](auto *state) { return curand_uniform_double(state); });
}
curandStatus_t curandGenerateNormal(curandGenerator_t generator, float *out, size_t count, float mean, float deviation) {
  return fill(generator, out, count, GPT2_CALLER, [=](auto *state) { return mean + deviation * curand_normal(state); });
}
curandStatus_t curandGenerateNormalDouble(curandGenerator_t generator, double *out, size_t count, double mean, double deviation) {
  return fill(generator, out, count, GPT2_CALLER, [=](auto *state) { return mean + deviation * curand_normal_double(state); });
}
