// Finds the scratch that a device's cards take in a step, and the cards that it does not call, before anything is allocated. The
// step is enqueued on a stand-in for the device, whose ops compute nothing.
import { absentDevice } from '../../native/absent-device.ts';
import type { Device } from '../../native/device.ts';
import type { NativeArguments } from '../contract.ts';
import { contracts } from '../ops.generated.ts';
import { replaceOp } from '../replacements.ts';
import { contractNamed, type LoadedCard } from './kernel-card.ts';
import { cardScratchBytes, scratchName, splitFused } from './use-cards.ts';

type Traits = Pick<Device, 'description' | 'dtype'>;

/** A step on the stand-in. */
export interface AbsentStep {
  /** Whether the device is opened so. */
  readonly accumulates: boolean;
  /** Enqueues the ops, and may allocate. */
  enqueue(absent: Device): void;
}

/** Bytes of scratch, by the name of the allocation: the most of any call. */
export function cardScratch(
  device: Traits,
  cards: readonly LoadedCard[],
  step: AbsentStep,
): ReadonlyMap<string, number> {
  const most = new Map<string, number>();
  if (!cards.some(({ scratch }) => scratch)) return most;
  enqueueAbsent(device, cards, step, (card, native) => {
    const name = scratchName(card);
    const bytes = Math.max(most.get(name) ?? 0, cardScratchBytes(card, native));
    if (bytes > 0) most.set(name, bytes);
  });
  return most;
}

/** The cards whose ops the step does not call. */
export function uncalledCards(device: Traits, cards: readonly LoadedCard[], step: AbsentStep): readonly LoadedCard[] {
  if (cards.length === 0) return cards;
  const called = new Set<LoadedCard>();
  enqueueAbsent(device, cards, step, (card) => called.add(card));
  return cards.filter((card) => !called.has(card));
}

function enqueueAbsent(
  { description: { library }, dtype }: Traits,
  cards: readonly LoadedCard[],
  { accumulates, enqueue }: AbsentStep,
  onCall: (card: LoadedCard, native: NativeArguments) => void,
): void {
  const absent = absentDevice({ kind: library, dtype, accumulates });
  for (const { name } of Object.values(contracts)) replaceOp(absent, name, () => {});
  for (const card of cards) replaceOp(absent, contractNamed(card.op).name, (_, native) => onCall(card, native));
  splitFused(absent, new Set(cards.map(({ op }) => contractNamed(op).name)));
  enqueue(absent);
}
