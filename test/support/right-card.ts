// Tests a card on the emulated GPU, at the sizes that a CPU tests by default.
import { expect } from 'vitest';
import { casesNamed } from '../../src/lab/ops.ts';
import { testOp } from '../../src/lab/test-op.ts';
import type { Device } from '../../src/native/device.ts';
import type { LoadedCard } from '../../src/ops/kernels/kernel-card.ts';
import { useCards } from '../../src/ops/kernels/use-cards.ts';

/** The card's results are right, without a race or a bad access. */
export async function expectRight(device: Device, card: LoadedCard): Promise<void> {
  await useCards(device, [card], { checks: true });
  let tested = 0;
  for await (const { sizes, isRight, lines } of testOp(device, casesNamed(card.op), { once: true })) {
    expect(isRight, [sizes, ...lines].join('\n')).toBe(true);
    tested++;
  }
  expect(tested).toBeGreaterThan(0);
}
