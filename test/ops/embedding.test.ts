// Token and position embedding: the largest vocabulary, and places and tokens that do not exist.
import { expect, it } from 'vitest';
import { floats } from '../../src/ops/cases/case-numbers.ts';
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

  it('gives NaN at places that a text does not have, and for a token that does not exist', () => {
    using bench = new TensorBench(device());
    const [B, T, S, C, V] = [5, 2, 6, 12, 11];
    const ids = new Int32Array(B * (S + 1)).fill(3);
    // After the last two places of the third text there are no more.
    const places = [0, 4, 5, -1, 2];
    // The second token of the fifth text.
    ids[4 * (S + 1) + 3] = V;
    const texts = bench.tensor('texts', [B, S + 1], ids, 'int32');
    const positions = bench.tensor('positions', [B], places, 'int32');
    const [wte, wpe] = [16, S].map((rows) => bench.tensor('rows', [rows, C], new Float32Array(rows * C)));
    const out = bench.tensor('out', [B, T, C]);
    embeddingForward(device(), { out, tokens: null, texts, positions, wte: wte!, wpe: wpe!, S, V });
    const missing = [0, 0, 0, 0, 1, 1, 1, 1, 0, 1].flatMap((each) => Array<boolean>(C).fill(each === 1));
    expect(Array.from(floats(out), Number.isNaN)).toEqual(missing);
    bench.checkGuards();
  });
});
