// Token and position embedding: the largest vocabulary, places of texts, and tokens that do not exist.
import { expect, it } from 'vitest';
import { floats, Random } from '../../src/ops/cases/case-numbers.ts';
import { embeddingBackward, embeddingForward, embeddingScratch } from '../../src/ops/ops.generated.ts';
import { describeBackends } from '../support/backends.ts';
import { TensorBench } from '../support/tensors.ts';

describeBackends('embedding', (device, kind) => {
  it.each([65536, 65537])('sorts what a token file can hold, and refuses a vocabulary of %i where it cannot', (V) => {
    using bench = new TensorBench(device());
    device().reserveWorkspace(embeddingScratch(device(), { B: 1, T: 3, C: 4, V }));
    const dout = bench.tensor('dout', [1, 3, 4], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    const tokens = bench.tensor('tokens', [1, 3], Int32Array.from([65535, 255, 65535]), 'int32');
    const dwte = bench.tensor('dwte', [V, 4], new Float32Array(V * 4));
    const dwpe = bench.tensor('dwpe', [3, 4], new Float32Array(12));
    const backward = () => embeddingBackward(device(), { dwte, dwpe, dout, tokens, V: V, accumulate: false });
    if (kind === 'cuda' && V > 65536) {
      expect(backward).toThrow('V = 65537 is over the 65536 tokens that are sorted');
      return;
    }
    backward();
    expect(floats(dwte).subarray(65535 * 4, 65536 * 4)).toEqual(Float32Array.of(10, 12, 14, 16));
    expect(floats(dwte).subarray(255 * 4, 256 * 4)).toEqual(Float32Array.of(5, 6, 7, 8));
  });

  it('at places of its own for each text; what does not fit is NaN', () => {
    using bench = new TensorBench(device());
    const [B, T, S, C, V] = [5, 2, 6, 12, 11];
    const random = new Random(3);
    const ids = random.integers(B * (S + 1), V);
    // Behind the last two places of the third text there are no more; the fifth has a token that there is not.
    const places = [0, 4, 5, -1, 2];
    ids[4 * (S + 1) + 3] = V;
    const texts = bench.tensor('texts', [B, S + 1], ids, 'int32');
    const positions = bench.tensor('positions', [B], places, 'int32');
    const [wteValues, wpeValues] = [random.normals(16 * C), random.normals(S * C)];
    const [wte, wpe] = [bench.tensor('wte', [16, C], wteValues), bench.tensor('wpe', [S, C], wpeValues)];
    const out = bench.tensor('out', [B, T, C]);
    embeddingForward(device(), { out, tokens: null, texts, positions, wte, wpe, S, V });
    const wanted = new Float32Array(B * T * C).fill(Number.NaN);
    for (const [b, place] of places.entries()) {
      if (place < 0 || place > S - T) continue;
      for (let t = 0; t < T; t++) {
        const id = ids[b * (S + 1) + place + t]!;
        if (id === V) continue;
        for (let c = 0; c < C; c++) {
          wanted[(b * T + t) * C + c] = Math.fround(wteValues[id * C + c]! + wpeValues[(place + t) * C + c]!);
        }
      }
    }
    expect(floats(out)).toEqual(wanted);
    bench.checkGuards();
  });
});
