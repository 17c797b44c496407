// The end of gpt2_global_norm in both libraries: stores in the step block norm, clip factor and whether to update.
#pragma once

#include "../gpt2.h"
#include "splitmix.h"

namespace gpt2 {

GPT2_ANYWHERE inline void end_of_step(float *step, double norm, float targets, float max_norm) {
  // Exactly 1 if no target is -1: multiplying by the factor then changes no bit.
  const float factor = targets / step[GPT2_STEP_TARGETS];
  norm *= factor;
  step[GPT2_STEP_LOSS] *= factor;
  step[GPT2_STEP_NORM] = static_cast<float>(norm);
  step[GPT2_STEP_CLIP] = factor * (max_norm > 0 && norm > max_norm ? static_cast<float>(max_norm / norm) : 1.0f);
  const bool updates = step[GPT2_STEP_LOSS] <= step[GPT2_STEP_LOSS_LIMIT] &&
                       step[GPT2_STEP_NORM] <= step[GPT2_STEP_NORM_LIMIT] &&
                       (step[GPT2_STEP_AFTER_UPDATE] == 0 || step[GPT2_STEP_UPDATED] != 0);
  step[GPT2_STEP_UPDATED] = updates ? 1.0f : 0.0f;
}

}  // namespace gpt2
