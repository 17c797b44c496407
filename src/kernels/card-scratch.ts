// How much scratch the cards of a device take in a step, before anything is allocated: the step is enqueued on a stand-in for the
// device, whose ops compute nothing.
import { absentDevice } from '../native/absent-device.ts';
import type { Device } from '../native/device.ts';
import { contracts } from '../ops/ops.generated.ts';
import { replaceOp } from '../ops/replacements.ts';
import { contractNamed, type LoadedCard } from './kernel-card.ts';
import { cardScratchBytes, scratchName, splitFused } from './use-cards.ts';

/**
 * Bytes of scratch, by the name of the allocation: the most of any call.
 * @param accumulates whether the device is opened so
 * @param enqueue enqueues the ops, and may allocate
 */
export function cardScratch(
  { description: { library }, dtype }: Pick<Device, 'description' | 'dtype'>,
  cards: readonly LoadedCard[],
  accumulates: boolean,
  enqueue: (absent: Device) => void,
): ReadonlyMap<string, number> {
  const most = new Map<string, number>();
  if (!cards.some(({ scratch }) => scratch)) return most;
  const absent = absentDevice({ kind: library, dtype, accumulates });
  for (const { name } of Object.values(contracts)) replaceOp(absent, name, () => {});
  for (const card of cards) {
    const name = scratchName(card);
    replaceOp(absent, contractNamed(card.op).name, (_, native) => {
      const bytes = Math.max(most.get(name) ?? 0, cardScratchBytes(card, native));
      if (bytes > 0) most.set(name, bytes);
    });
  }
  splitFused(absent, new Set(cards.map(({ op }) => contractNamed(op).name)));
  enqueue(absent);
  return most;
}
