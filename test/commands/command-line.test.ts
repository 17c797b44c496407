// The command line's texts: --help, the status line, the lines before step 0; and flags that npm keeps (src/commands/npm-flags.ts).
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, vi } from 'vitest';
import { asTyped } from '../../src/base/wording.ts';
import { shareLine, statusLine } from '../../src/commands/progress.ts';
import { root } from '../support/built.ts';
import { spawned, tinyModel, workplace } from '../support/cli.ts';
import { allCommands, helpOf, newProgram, parses } from '../support/documented.ts';

const place = workplace();
const commands = allCommands(newProgram());

const named = commands.map((command) => [command.name(), command] as const);
it.each(named)('%s', (_, command) => {
  const help = command.helpInformation();
  expect(help.match(/"/g)).toBeNull();
  for (const [, choices] of help.matchAll(/\(choices: ([^)]*)\)/g)) {
    expect(help.split(choices!.replaceAll(/\s+/g, ' '))).toHaveLength(1);
  }
});

/** The columns in which explanations begin, in each paragraph that has several: after two spaces, or on a line of their own. */
const columnsOf = (help: string): number[][] =>
  help.split(/\n\s*\n/).flatMap((paragraph) => {
    const all = paragraph.split('\n').map((line) => line.search(/(?<=^ {2,}\S.*? {2,}|^ {20,})\S/));
    const columns = all.filter((column) => column >= 0);
    return columns.length > 1 ? [[...new Set(columns)]] : [];
  });

it.each(named)('%s: columns align', (_, command) => {
  const help = helpOf(command);
  for (const compiled of [false, true]) {
    const columns = columnsOf(asTyped(help, { compiled }));
    expect(columns.length).toBeGreaterThan(0);
    const torn = columns.filter(({ length }) => length > 1);
    expect(torn, help).toEqual([]);
  }
});

it('train --help opens with the ten most used options', () => {
  const help = commands[0]!.commands.find((command) => command.name() === 'train')!.helpInformation();
  const [, first] = /\nMost used:\n(.*?)\n\nWhat is trained:/s.exec(help)!;
  const flags = first!.match(/^ {2}--[a-z-]+/gm)!;
  expect(flags).toHaveLength(10);
  expect(flags).toEqual(expect.arrayContaining(['  --data', '  --model', '  --steps', '  --preset']));
  expect(help.match(/^ {2}--steps /gm)).toHaveLength(1);
});

it('the search finds columns that do not align', () => {
  expect(columnsOf(`A:\n  a   one\n  bb   two\n\n  c    three\n  dd   four\n`)).toEqual([[6, 7], [7]]);
  expect(columnsOf(`  a${' '.repeat(20)}one\n  b two\n${' '.repeat(22)}three\n`)).toEqual([[23, 22]]);
});

it.each([
  [79, 50, 100, '   left 1m05s', '[===============               ] 50/100   left 1m05s'],
  [39, 50, 100, '   left 1m05s', '[=========        ] 50/100   left 1m05s'],
  [24, 50, 100, '   left 1m05s', '50/100   left 1m05s'],
  [9, 50, 100, '   left 1m05s', '50/100   left 1m05s'],
  [20, 7, 7, '', '[==============] 7/7'],
])('%d columns, %d of %d steps', (columns, done, steps, more, line) => {
  expect(statusLine(done, steps, more, columns)).toBe(line);
});

it('work without steps shows its share and the time left', () => {
  expect([shareLine(0, 40, 10), shareLine(10, 40, 21_000), shareLine(40, 40, 9)]).toEqual([
    '0%',
    '25%   left 1m03s',
    '100%   left 0s',
  ]);
});

it.each([
  [
    '--total-batch 128',
    '80 steps of 128 tokens, 2 micro-batches each, 2.05 epochs, lr 0.002, warmup 20, cosine to 0.1; saves to run',
  ],
  ['--lr 1e20', '80 steps of 64 tokens, 1.02 epochs, lr 1e+20, warmup 20, cosine to 0.1; saves to run'],
  ['--seq 16', '80 steps of 32 tokens, lr 0.002, warmup 20, cosine to 0.1; saves to run'],
])('train %s', async (more, line) => {
  rmSync(join(place.data({ train: 5000, vocabulary: 100 }), 'random_val.bin'));
  const never = '--val-every 0 --sample-every 0 --save-every 0 --stop-after 1';
  const flags = `${tinyModel.join(' ')} --batch 2 --seq 32 --steps 80 ${never} ${more}`;
  const { stdout } = await place.okHere(`train --data data --out run --overwrite ${flags}`);
  expect(stdout.split('\n')).toContain(line);
});

/** The error of the program when an npm script kept these settings; undefined: it started the command. */
async function refusal(script: string, args: string[], kept: Record<string, string>): Promise<string | undefined> {
  for (const [name, value] of Object.entries({ npm_command: 'run', npm_lifecycle_event: script, ...kept })) {
    vi.stubEnv(name, value);
  }
  const error = await parses(args).catch((error: Error) => error);
  vi.unstubAllEnvs();
  return error instanceof Error ? error.message : undefined;
}

it.each([
  ['train', ['train'], { dry_run: 'true' }, '--dry-run', 'train -- --dry-run'],
  ['train', ['train'], { steps: '9', val_every: '5' }, '--steps=9 --val-every=5', 'train -- --steps=9 --val-every=5'],
  ['train', ['train', 'auto'], { batch: 'true' }, '--batch <B|auto>', 'train -- --batch <B|auto>'],
  ['bench', ['bench'], { ops: '' }, '--no-ops', 'bench -- --no-ops'],
  ['prepro', ['prepro', 'text', 'x'], { workers: '4' }, '--workers=4', 'prepro text -- --workers=4'],
  ['gpt2', ['export', 'x'], { model: 'true' }, '--model <NAME|PATH>', 'gpt2 export -- --model <NAME|PATH>'],
  ['my-own', ['train'], { resume: 'true' }, '--resume', 'my-own -- --resume'],
] as const)('refuses what npm kept: npm run %s', async (script, args, settings, kept, typed) => {
  const environment = Object.fromEntries(
    Object.entries(settings).map(([name, value]) => [`npm_config_${name}`, value]),
  );
  const message = await refusal(script, [...args], environment);
  expect(message).toContain(`npm kept ${kept} to itself`);
  expect(message).toContain(asTyped(`\`npm run ${typed}\``));
});

it('leaves other starts alone', async () => {
  expect(await refusal('train', ['train', '--dry-run'], {})).toBeUndefined();
  expect(await refusal('train', ['train', '--json'], { npm_config_json: 'true' })).toBeUndefined();
  expect(await refusal('npx', ['train'], { npm_command: 'exec', npm_config_dry_run: 'true' })).toBeUndefined();
  expect(await refusal('prepack', ['train'], { npm_command: 'pack', npm_config_dry_run: 'true' })).toBeUndefined();
});

it('in the names that npm itself writes', () => {
  const train = (...args: string[]) => spawned('npm', ['run', '--silent', 'train', ...args], { cwd: root });
  const { status, stderr } = train('--dry-run', '--val-every=5');
  expect(stderr).toContain(
    'npm kept --val-every=5 --dry-run to itself: type `npm run train -- --val-every=5 --dry-run`',
  );
  expect(status).toBe(2);
  // npm sets these by itself.
  expect(train('--', '--data', 'nowhere', '--device', 'cpu').stderr).toContain('nowhere does not exist');
});
