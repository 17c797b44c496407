// The end of a global norm: norm, clip factor and whether the step updates, from the sum of squares of all gradients.
// Static, because it is compiled with the instructions of each code path.
#pragma once

#include <cmath>

#include "../gpt2.h"

namespace gpt2 {

static inline void finish_norm(float *step, double squares, float max_norm) {
  const double norm = std::sqrt(squares);
  step[GPT2_STEP_NORM] = static_cast<float>(norm);
  step[GPT2_STEP_CLIP] = max_norm > 0 && norm > max_norm ? static_cast<float>(max_norm / norm) : 1.0f;
  const bool updates = step[GPT2_STEP_LOSS] <= step[GPT2_STEP_LOSS_LIMIT] &&
                       step[GPT2_STEP_NORM] <= step[GPT2_STEP_NORM_LIMIT] &&
                       (step[GPT2_STEP_AFTER_UPDATE] == 0 || step[GPT2_STEP_UPDATED] != 0);
  step[GPT2_STEP_UPDATED] = updates ? 1.0f : 0.0f;
}

}  // namespace gpt2
