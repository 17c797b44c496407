// Finds the cards that a step calls, and how much scratch they need, on a stand-in for a device (native/absent-device.ts).
import type { Device } from '../../native/device.ts';
import { replaceOp } from '../replacements.ts';
import { variantNamed } from '../variants.ts';
import type { LoadedCard } from './kernel-card.ts';
import { cardScratchBytes, scratchName, splitFused } from './use-cards.ts';

/** The cards whose ops `enqueue` calls. Allocates on the stand-in, for each card, the most scratch that any call needs. */
export function callCards(absent: Device, cards: readonly LoadedCard[], enqueue: () => void): ReadonlySet<LoadedCard> {
  const most = new Map<LoadedCard, number>();
  if (cards.length === 0) return new Set();
  for (const card of cards) {
    replaceOp(absent, variantNamed(card.op), (_, native) => {
      most.set(card, Math.max(most.get(card) ?? 0, cardScratchBytes(card, native)));
    });
  }
  splitFused(absent, new Set(cards.map(({ op }) => variantNamed(op))));
  enqueue();
  for (const [card, bytes] of most) if (bytes > 0) absent.allocate(bytes, scratchName(card));
  return new Set(most.keys());
}
