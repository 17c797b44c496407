// Token and position embedding: the largest vocabulary, and places and tokens that do not exist.
import { expect, it } from 'vitest';
import { floats } from '../../src/ops/cases/case-numbers.ts';
import { describeBackends } from '../support/backends.ts';
import { TensorBench } from '../support/tensors.ts';

describeBackends('embedding', (device, kind) => {
  it.each([65536, 65537])('sorts what a token file can hold, and refuses a vocabulary of %i where it cannot', (V) => {
    using bench = new TensorBench(device());
    const backward = () =>
      bench.call(
        'embedding_backward',
        { B: 1, T: 3, C: 4, V, accumulate: 0 },
        {
          ...{ dout: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], tokens: [65535, 255, 65535] },
          ...{ dwte: new Float32Array(V * 4), dwpe: new Float32Array(12) },
        },
      );
    if (kind === 'cuda' && V > 65536) {
      expect(backward).toThrow('V = 65537 is over the 65536 tokens that are sorted');
      return;
    }
    const { dwte } = backward();
    expect(floats(dwte).subarray(65535 * 4, 65536 * 4)).toEqual(Float32Array.of(10, 12, 14, 16));
    expect(floats(dwte).subarray(255 * 4, 256 * 4)).toEqual(Float32Array.of(5, 6, 7, 8));
  });

  it('gives NaN at places that a text does not have, and for a token that does not exist', () => {
    using bench = new TensorBench(device());
    const [B, T, S, C, V] = [5, 2, 6, 12, 11];
    const texts = new Int32Array(B * (S + 1)).fill(3);
    // After the last two places of the third text there are no more.
    const positions = [0, 4, 5, -1, 2];
    // The second token of the fifth text.
    texts[4 * (S + 1) + 3] = V;
    const wte = bench.tensor('wte', [16, C], new Float32Array(16 * C));
    const wpe = new Float32Array(S * C);
    const sizes = { B, T, S, C, V };
    const { out } = bench.call('embedding_forward.at_positions', sizes, { texts, positions, wte, wpe });
    const missing = [0, 0, 0, 0, 1, 1, 1, 1, 0, 1].flatMap((each) => Array<boolean>(C).fill(each === 1));
    expect(Array.from(floats(out), Number.isNaN)).toEqual(missing);
  });
});
