// Finds out which cards a step uses and how much scratch they need, by enqueuing its ops on a stand-in (native/absent-device.ts).
import type { Device } from '../../native/device.ts';
import { replaceOp } from '../replacements.ts';
import { opVariants, variantNamed } from '../variants.ts';
import type { LoadedCard } from './kernel-card.ts';
import { cardScratchBytes, scratchName, splitFused } from './use-cards.ts';

/** Numbers of calls by the name of the op's variant. */
type Calls = ReadonlyMap<string, number>;

/**
 * Runs `enqueue` on a stand-in for a device. Counts the calls that cards compute (`called`), and the calls of other variants of the same
 * ops (`others`), which the library computes. Allocates each card's scratch, for its largest call, on the stand-in.
 */
export function callCards(
  absent: Device,
  cards: readonly LoadedCard[],
  enqueue: () => void,
): { readonly called: Calls; readonly others: Calls } {
  const [called, others] = [new Map<string, number>(), new Map<string, number>()];
  if (cards.length === 0) return { called, others };
  const computed = new Map(cards.map((card) => [variantNamed(card.op), card]));
  const ops = new Set([...computed.keys()].map(({ op }) => op));
  const most = new Map<LoadedCard, number>();
  for (const variant of opVariants.filter(({ op }) => ops.has(op))) {
    const card = computed.get(variant);
    const calls = card ? called : others;
    replaceOp(absent, variant, (_, native) => {
      calls.set(variant.name, (calls.get(variant.name) ?? 0) + 1);
      if (card) most.set(card, Math.max(most.get(card) ?? 0, cardScratchBytes(card, native)));
    });
  }
  splitFused(absent, new Set(computed.keys()));
  enqueue();
  for (const [card, bytes] of most) if (bytes > 0) absent.allocate(bytes, scratchName(card));
  return { called, others };
}
