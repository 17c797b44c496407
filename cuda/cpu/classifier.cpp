// The last linear layer with its loss and backward, as a sequence of other ops. `logits` is overwritten with the
// logits' gradient. With FP8 copies, l[i,j] are the logits of token i, and r[i] is the target's logit. Every s-th
// column j is sampled (s = sample_stride):
//   z[i] = r[i] + log(1/16 + s * sum over sampled j of exp(l[i,j] - r[i])), which estimates log(softmax's denominator)
//   e[i,j] = 128 exp(l[i,j] - z[i]) for j other than the target, D[i] = sum of e[i,j], d[i] = D[i] + 128 exp(r[i] - z[i])
//   din = dloss / d * E5M2(e) / 0.99722 * weight_values * factors[SCALE] - dloss D / d * weight[target]
//   dweight = E5M2(e)^T * (dloss / d / 0.99722 * in), with (...) in E4M3, a scale for each GPT2_FP8_BLOCK rows;
//   row target of dweight -= dloss D / d * in
// A softcap's derivative multiplies E5M2's argument and the target's terms. Rounding to E5M2 makes the sum of many
// numbers 0.99722 times as large. The division corrects this: the target's term nearly cancels the sum, so the error of
// the sum would be a large part of the difference.
#include <algorithm>
#include <cmath>

#include "../gpt2.h"
#include "fp8.h"
#include "kernels.h"
#include "math.h"

namespace gpt2::GPT2_PATH {

namespace {

// Scratch for gradients in FP8: three arrays [N]; in [N,C] and weight [Vp,C] as matmuls read them; the matmuls' scratch.
struct Fp8Memory {
  float *scale, *of_target, *saturated, *in, *weight;
  Task rest;

  Fp8Memory(Task task, int64_t N, int64_t C, int64_t Vp)
      : scale(task.scratch),
        of_target(scale + N),
        saturated(of_target + N),
        in(saturated + N),
        weight(in + N * C),
        rest(task.with(weight + Vp * C)) {}
};

// Computes losses from capped logits, and replaces the logits by E5M2(e), which is 0 for the target.
// scale = dloss / d / 0.99722, of_target = -dloss D / d.
void fp8_cross_entropy(Task task, float *losses, const Fp8Memory &memory, float *logits, const int32_t *targets, int N,
                       int V, int Vp, float dloss, float softcap) {
  constexpr float limit = 77;
  task.pool.each(N, [&](int64_t n) {
    float *x = logits + static_cast<size_t>(n) * Vp;
    const int target = targets[n], stride = sample_stride(Vp);
    if (target < 0) {
      losses[n] = memory.scale[n] = memory.of_target[n] = memory.saturated[n] = 0;
      std::fill_n(x, Vp, 0.0f);
      return;
    }
    const auto slope = [&](int j) { return softcap > 0 ? softcap_slope(x[j], softcap) : 1.0f; };
    const float reference = x[target], slope_at_target = slope(target);
    double sampled = 0;
    for (int j = 0; j < V; j += stride) {
      if (j != target) sampled += exponential(std::min(x[j] - reference, limit));
    }
    // above = z[i] - log(128) - reference, so that e = exp(x - reference - above).
    const auto above = static_cast<float>(std::log((fp8_of_target + stride * sampled) / fp8_of_estimate));
    double sum = 0;
    for (int j = 0; j < V; j++) {
      const float e = j == target ? 0 : exponential(std::min(x[j] - reference - above, limit));
      sum += e;
      x[j] = rounded_to_e5m2(e * slope(j));
    }
    std::fill(x + V, x + Vp, 0.0f);
    losses[n] = static_cast<float>(std::log1p(sum * std::exp(static_cast<double>(above))));
    const double scale = dloss / (sum + std::exp(-static_cast<double>(above)));
    memory.scale[n] = static_cast<float>(scale / e5m2_loss);
    memory.of_target[n] = static_cast<float>(-scale * sum * slope_at_target);
    memory.saturated[n] = sum > e5m2_largest ? 1.0f : 0.0f;
  });
}

// out [N,C] = scale * in, rounded to E4M3 with a scale for each block of GPT2_FP8_BLOCK rows.
void round_rows(Task task, float *out, const float *in, const float *in_scale, const float *scale, int N, int C) {
  task.pool.each((N + GPT2_FP8_BLOCK - 1) / GPT2_FP8_BLOCK, [&](int64_t block) {
    const int64_t first = block * GPT2_FP8_BLOCK, last = std::min<int64_t>(first + GPT2_FP8_BLOCK, N);
    float largest = 0;
    for (int64_t n = first; n < last; n++) largest = std::max(largest, scale[n] * in_scale[n]);
    const float of_block = fp8_scale(largest * fp8_largest), inverse = inverse_of(of_block);
    for (int64_t i = first * C; i < last * C; i++) {
      out[i] = from_e4m3(to_e4m3(in[i] * scale[i / C] * inverse)) * of_block;
    }
  });
}

}  // namespace

void classifier(Task task, float *losses, float *din, float *dweight, float *dbias, float *step, float *logits,
                const float *in, const uint8_t *in_values, const float *in_scale, const float *weight,
                const uint8_t *weight_values, const uint8_t *, const float *factors, const float *bias,
                const int32_t *targets, int N, int C, int V, int Vp, float dloss, float softcap, bool accumulate) {
  if (in_values) {
    fp8_product(task, logits, in_values, in_scale, weight_values, factors, bias, nullptr, N, C, Vp);
  } else {
    matmul_forward(task, logits, nullptr, in, weight, bias, nullptr, N, C, Vp, GPT2_NO_ACTIVATION);
  }
  if (softcap > 0) softcap_forward(task, logits, logits, static_cast<int64_t>(N) * Vp, softcap);
  const bool has_gradient = din || dweight || dbias;
  if (!in_values || !has_gradient) {
    float *dlogits = has_gradient ? logits : nullptr;
    // The bf16 matmuls round the logits' gradient anyway, and bf16 takes half of the time to write and read. With a
    // bias the gradient stays in fp32, because dbias is the sum of the unrounded gradient.
    const bool is_rounded = task.engine->is_bf16 && !dbias;
    cross_entropy_capped(task, losses, dlogits, logits, targets, N, V, Vp, dloss, softcap, is_rounded);
    const View dout{dlogits, static_cast<size_t>(is_rounded ? 2 * Vp : Vp), 1, is_rounded};
    matmul_gradients(task, din, dweight, dout, in, weight, N, C, Vp, accumulate);
    if (dbias) column_sums(task, dbias, dlogits, N, Vp, accumulate);
    return;
  }
  const Fp8Memory memory(task, N, C, Vp);
  fp8_cross_entropy(task, losses, memory, logits, targets, N, V, Vp, dloss, softcap);
  if (step) add_to_step(step, GPT2_STEP_SATURATED, memory.saturated, N, 1, accumulate);
  if (din) {
    task.pool.ranges(static_cast<int64_t>(Vp) * C, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; i++) memory.weight[i] = from_e4m3(weight_values[i]) * factors[GPT2_FP8_SCALE];
    });
    matmul_backward_input(memory.rest, din, logits, memory.weight, nullptr, nullptr, N, C, Vp, GPT2_NO_ACTIVATION);
    task.pool.each(N, [&](int64_t n) {
      // For a target of -1 the factor is 0, and any row of the weight serves.
      const float *of_target = weight + static_cast<size_t>(std::max(targets[n], 0)) * C;
      for (int c = 0; c < C; c++) {
        din[n * C + c] = memory.scale[n] * din[n * C + c] + memory.of_target[n] * of_target[c];
      }
    });
  }
  if (dweight) {
    round_rows(task, memory.in, in, in_scale, memory.scale, N, C);
    matmul_backward_weight(memory.rest, dweight, nullptr, logits, memory.in, N, C, Vp, accumulate);
    for (int64_t i = 0; i < static_cast<int64_t>(N) * C; i++) memory.in[i] = memory.of_target[i / C] * in[i];
    embedding_backward(task, dweight, nullptr, memory.in, targets, N, 1, C, V, true);
  }
  if (dbias) {
    task.pool.each(N, [&](int64_t n) {
      for (int64_t i = n * Vp; i < (n + 1) * Vp; i++) logits[i] *= memory.scale[n];
    });
    column_sums(task, dbias, logits, N, Vp, accumulate);
    embedding_backward(task, dbias, nullptr, memory.of_target, targets, N, 1, 1, V, true);
  }
}

int64_t classifier_scratch(int threads, int N, int C, int Vp, bool gradients, bool fp8) {
  const int64_t of_row = static_cast<int64_t>(threads) * Vp;
  const int64_t of_matmul = std::max(matmul_scratch(threads, N, C, Vp, true), of_row);
  if (!fp8) return of_matmul;
  const int64_t of_gradients = gradients ? (static_cast<int64_t>(N) + Vp) * C + 3 * N + of_matmul : 0;
  return std::max(fp8_product_scratch(threads, N, C, Vp), of_gradients);
}

}  // namespace gpt2::GPT2_PATH
