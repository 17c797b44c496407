// Numbers that both libraries use for FP8.
#pragma once

#include "splitmix.h"

namespace gpt2 {

constexpr float fp8_largest = 448, e5m2_largest = 57344;
// The factor by which rounding to E5M2 changes a sum of many numbers: the mean of rounded / exact over one binade.
constexpr float e5m2_loss = 0.99722f;
// The weight of the target's exponential in the classifier's estimate of softmax's denominator. With weight 1, the
// other exponentials would become subnormal in E5M2 if the target is nearly certain.
constexpr float fp8_of_target = 0.0625f;
// The classifier scales exponentials in E5M2 so that its estimate of softmax's denominator becomes 128. In a model of
// the modern recipe after 600 steps, 1.8e-3 of 65,536 tokens saturated with 256. With 64, 73 rows of the input's
// gradient had a cosine below 0.95 with bf16's gradient; with 256, only two rows had (benchmarks/fp8.md).
constexpr float fp8_of_estimate = 128;
constexpr float largest_gelu_derivative = 1.13f;  // an upper bound of gelu'

// The classifier's estimate of softmax's denominator samples every n-th of `padded` outputs. Returns n.
GPT2_ANYWHERE constexpr int sample_stride(int padded) {
  return padded < 1024 ? 1 : padded < 64 * 512 ? padded / 512 : 64;
}

}  // namespace gpt2
