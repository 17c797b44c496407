// Adds a row to the options table, and expects everything that handles options to handle it.
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import type { OptionRow } from '../../src/options/row.ts';
import type { Configuration, ResolvedOptions, TrainOptions } from '../../src/options/table.ts';
import { configuration } from '../runs/run-log.ts';
import { workplace } from '../support/cli.ts';

const label: OptionRow = {
  usage: '--label <TEXT>',
  type: ['plain', 'noted'],
  help: 'label of the run',
  default: 'plain',
  optional: true,
};
const noted = { label: 'noted' } as Partial<Configuration>;

const place = workplace();
beforeAll(() => {
  vi.resetModules();
  vi.doMock('../../src/options/training-rows.ts', async (original) => {
    const { trainingRows } = await original<typeof import('../../src/options/training-rows.ts')>();
    return { trainingRows: { ...trainingRows, label } };
  });
});
afterAll(() => {
  vi.doUnmock('../../src/options/training-rows.ts');
  vi.resetModules();
});

it('--help names it', async () => {
  const { program } = await import('../../src/commands/command-line.ts');
  const commands = program(() => new AbortController().signal);
  const train = commands.commands.find((command) => command.name() === 'train')!;
  expect(train.helpInformation()).toMatch(/--label <TEXT> +label of the run \(default: plain\)/);
});

it('config files are read with it, defaults filled in', async () => {
  const { readOptionsFile } = await import('../../src/options/read-options.ts');
  const { completeOptions } = await import('../../src/options/complete-options.ts');
  const path = place.file('config.json', JSON.stringify(noted));
  expect(readOptionsFile(path)).toEqual(noted);
  place.file('config.json', JSON.stringify({ label: 'loud' }));
  expect(() => readOptionsFile(path)).toThrow('--label takes one of plain, noted, not "loud"');
  expect(completeOptions({}, 'cpu')).toMatchObject({ label: 'plain' });
});

it('a configuration records it, and is checked; older ones lack it', async () => {
  const { configurationOf, configurationSchema } = await import('../../src/options/configuration.ts');
  const { completeOptions, freezeOptions } = await import('../../src/options/complete-options.ts');
  const { presetConfig } = await import('../../src/model/config.ts');
  const options: ResolvedOptions = freezeOptions({ ...completeOptions({ ...noted, warmup: 0 }, 'cpu'), batch: 4 });
  const recorded = configurationOf(options, presetConfig('d6')!, 10);
  expect(recorded.label).toBe('noted');
  expect(configurationSchema.parse(recorded)).toEqual(recorded);
  expect(() => configurationSchema.parse({ ...recorded, label: 'loud' })).toThrow();
  expect(configurationSchema.parse(configuration)).toEqual(configuration);
});

it('--resume takes another with a notice; runs from before it had the default', async () => {
  const { resumedOptions } = await import('../../src/options/resumed-options.ts');
  const notices: string[] = [];
  const resumed = (before: TrainOptions, given: TrainOptions) =>
    resumedOptions(before, given, (text) => notices.push(text));
  expect(resumed(noted, {})).toEqual(noted);
  expect(resumed({}, { label: 'plain' } as TrainOptions)).toEqual({ label: 'plain' });
  expect(notices).toEqual([]);
  expect(resumed({}, noted)).toEqual(noted);
  expect(notices).toEqual(["--label noted in place of the run's plain"]);
});

it('compare and ranks see a difference', async () => {
  const configurations = await import('../../src/options/configuration.ts');
  const { agreedOptions, configurationDifferences, describeMismatches } = configurations;
  const other = { ...configuration, ...noted };
  expect(describeMismatches(configurationDifferences(other, configuration))).toBe('label noted instead of plain');
  expect(agreedOptions(other)).toMatchObject(noted);
});

it('docs/formats.md has a row of it', async () => {
  const { recordedOptions } = await import('../../scripts/docs-options.ts');
  expect(recordedOptions()).toContain(
    '| `label` | `plain`, `noted`, optional | `--label` | yes | label of the run (default: plain) |',
  );
});
