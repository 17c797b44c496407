// The input of a layer, out = a (in + c skip) + b embedded, with `factors` a, b, c; and the gradients of this sum.
#include "factor-sums.h"
#include "fp8.h"
#include "math.h"

namespace gpt2::GPT2_PATH {

void stream_sum_forward(Task task, float *out, const float *in, const float *skip, const float *embedded,
                        const float *factors, int N, int C) {
  task.pool.each(N, [&](int64_t n) {
    const float a = factors[0], b = factors[1], c = factors[2];
    const size_t start = static_cast<size_t>(n) * C;
    for (size_t i = start; i < start + C; i++) out[i] = a * (skip ? in[i] + c * skip[i] : in[i]) + b * embedded[i];
  });
}

void stream_sum_backward(Task task, float *din, uint8_t *values, float *scale, float *norm, float *dembedded,
                         float *dfactors, const float *dout, const float *later, const float *later_factors,
                         const float *in, const float *skip, const float *embedded, const float *factors, int N, int C,
                         bool accumulate) {
  const float a = factors[0], b = factors[1], c = factors[2];
  const float of_later = later ? later_factors[0] * later_factors[2] : 0;
  factor_sums<3>(task, dfactors, N, accumulate, [&](int64_t n, double (&sums)[3]) {
    const size_t start = static_cast<size_t>(n) * C;
    const float *d = dout + start, *x = in + start;
    const float direct = dot(d, x, C), skipped = skip ? dot(d, skip + start, C) : 0;
    sums[0] += direct + c * skipped;
    sums[1] += dot(d, embedded + start, C);
    sums[2] += a * skipped;
    for (size_t i = start; i < start + C; i++) {
      dembedded[i] += b * dout[i];
      din[i] = later ? a * dout[i] + of_later * later[i] : a * dout[i];
    }
  });
  if (values) quantize_rows_and_norms(task, values, scale, norm, din, N, C);
}

}  // namespace gpt2::GPT2_PATH
