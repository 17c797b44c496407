// Normalization and rotation of q and k: scores that follow from distances alone, and positions that do not fit.
import { expect, it } from 'vitest';
import { floats, Random } from '../../src/ops/cases/case-numbers.ts';
import { rotationsOf } from '../../src/ops/cases/qk-norm-rotary.ts';
import { describeBackends } from '../support/backends.ts';
import { dot, TensorBench } from '../support/tensors.ts';

const [eps, queryFactor] = [1e-5, 1.3];

describeBackends('qk-norm and rotary', (device) => {
  it('lets scores depend on distances alone', () => {
    using bench = new TensorBench(device());
    const [HS, S] = [64, 40];
    const random = new Random(7);
    const values = random.normals(3 * HS);
    const rotations = rotationsOf(S, HS);
    // q at each position and k at the position three before it.
    const rotated = (place: number) => {
      const sizes = { B: 1, T: 1, S, C: HS, NH: 1, eps, queryFactor: 1 };
      const given = { qkv: values, rstd: null, rotations, positions: [place] };
      return floats(bench.call('qk_norm_rotary_forward', sizes, given).qkv);
    };
    const scores = [3, 11, 39].map((place) =>
      dot(rotated(place).subarray(0, HS), rotated(place - 3).subarray(HS, 2 * HS)),
    );
    const unrotated = dot(values.subarray(0, HS), values.subarray(HS, 2 * HS));
    for (const score of scores) expect(Math.abs(score - scores[0]!)).toBeLessThan(1e-4);
    expect(Math.abs(scores[0]! - unrotated)).toBeGreaterThan(0.1);
  });

  it('at places of its own for each text; q and k that do not fit are NaN', () => {
    using bench = new TensorBench(device());
    const [B, T, S, NH, HS] = [4, 2, 6, 2, 64];
    const C = NH * HS;
    const places = [0, 4, 5, -2];
    const values = new Random(3).normals(B * T * 3 * C);
    const sizes = { B, T, S, C, NH, eps, queryFactor };
    const given = { qkv: values, rstd: null, rotations: rotationsOf(S, HS), positions: places };
    const result = floats(bench.call('qk_norm_rotary_forward', sizes, given).qkv);
    for (const [b, place] of places.entries()) {
      const fits = place >= 0 && place <= S - T;
      for (let t = 0; t < T; t++) {
        const at = (b * T + t) * 3 * C;
        expect(result.subarray(at, at + 2 * C).every((value) => Number.isNaN(value) !== fits)).toBe(true);
        expect(result.subarray(at + 2 * C, at + 3 * C)).toEqual(values.subarray(at + 2 * C, at + 3 * C));
      }
    }
  });
});
