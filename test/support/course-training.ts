// Trains a small GPT-2 on the library's ops, or with kernels of the course in their places.
import { AdamW, type CardOptions, Device, type LoadedCard, Trainer, useCards } from '../../src/index.ts';
import { Random } from '../../src/ops/cases/case-numbers.ts';
import { drawnModel } from './tiny-model.ts';

export interface Trained {
  /** Losses of the steps, all on the same random tokens. */
  readonly losses: readonly number[];
  /** The ops of a plain training step that the library itself computed: none if cards take the place of all. */
  readonly ownOps: readonly string[];
}

/** Opens a device of its own, and closes it. */
export async function trained(
  given: Parameters<typeof Device.open>[0],
  cards: readonly LoadedCard[],
  { channels, batch, sequence, steps }: Readonly<Record<'channels' | 'batch' | 'sequence' | 'steps', number>>,
  options: CardOptions = {},
): Promise<Trained> {
  using device = Device.open(given);
  await useCards(device, cards, options);
  const config = { vocabularySize: 300, context: sequence, layers: 2, heads: 2, channels };
  const model = drawnModel(device, config, { B: batch, T: sequence, purpose: 'training' });
  const optimizer = new AdamW({ weightDecay: 0.1 });
  const trainer = new Trainer(model, { batch, sequence, accumulation: 1, optimizer, gradientClip: 1 });
  const tokens = Int32Array.from(new Random(1).integers(batch * sequence + 1, config.vocabularySize));
  const data = { inputs: tokens.subarray(0, -1), targets: tokens.subarray(1) };
  const losses: number[] = [];
  const calls = new Set<string>();
  await device.observed(
    (name) => calls.add(name),
    async () => {
      for (let step = 0; step < steps; step++) losses.push((await trainer.step(step, 1e-3, () => data)).loss);
    },
  );
  const isOp = /Forward|Backward|classifier|adamw|crossEntropy|lossSum|globalNorm$/;
  return { losses, ownOps: [...calls].filter((name) => isOp.test(name)) };
}
