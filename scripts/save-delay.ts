// How long saves held up training, from the log of a run with --save-every: the time of its steps beyond what they take
// where nothing is saved.
//   node --import tsx scripts/save-delay.ts RUN
import { readRun } from '../src/index.ts';

const [run] = process.argv.slice(2);
if (run === undefined) throw new Error('usage: save-delay.ts RUN');
const { events, configuration } = readRun(run);
const ms = new Map(events.flatMap((event) => (event.event === 'train' ? [[event.step, event.ms] as const] : [])));
const saves = events.flatMap((event) =>
  event.event === 'checkpoint' && event.ms !== undefined && event.step < configuration.steps ? [event] : [],
);
const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1]!;
/** The steps that can feel a save: the one before, whose end is waited for, and those that went on while it was written. */
const stepsOf = (save: { step: number; ms?: number }, typical: number): number[] => {
  const count = Math.ceil(save.ms! / typical) + 2;
  return Array.from({ length: count }, (_, index) => save.step - 1 + index).filter((step) => ms.has(step));
};
const typical = median([...ms.values()]);
const near = new Set(saves.flatMap((save) => stepsOf(save, typical)));
// The first steps warm up.
const apart = [...ms].filter(([step]) => step >= 5 && !near.has(step)).map(([, each]) => each);
const usual = median(apart);
console.log(`${apart.length} steps apart from saves: median ${usual.toFixed(2)} ms`);
for (const save of saves) {
  const steps = stepsOf(save, typical);
  const times = steps.map((step) => ms.get(step)!);
  const delay = times.reduce((sum, each) => sum + each - usual, Number(save.heldMs));
  const waited =
    save.waitedMs === undefined ? '' : `, waited ${Math.round(Number(save.waitedMs))} ms for the one before`;
  console.log(
    `step ${save.step}: training ${delay.toFixed(1)} ms later (slowest step ${(Math.max(...times) - usual).toFixed(1)} ms over the median), on the disk after ${Math.round(Number(save.ms))} ms, ${steps.length} steps${waited}`,
  );
}
