// Flags that npm takes from `npm run train --dry-run` are refused instead of ignored; see src/commands/npm-flags.ts.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, it, vi } from 'vitest';
import { program } from '../../src/commands/command-line.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** The error of the program when an npm script kept these settings; undefined: it started the command. */
async function refusal(script: string, args: string[], kept: Record<string, string>): Promise<string | undefined> {
  for (const [name, value] of Object.entries({ npm_command: 'run', npm_lifecycle_event: script, ...kept })) {
    vi.stubEnv(name, value);
  }
  const given = program(() => new AbortController().signal);
  for (const command of given.commands.flatMap((each) => [each, ...each.commands])) command.action(() => {});
  try {
    await given.parseAsync(args, { from: 'user' });
  } catch (error) {
    return (error as Error).message;
  } finally {
    vi.unstubAllEnvs();
  }
}

describe('refuses what npm kept', () => {
  it.each([
    ['train', ['train'], { dry_run: 'true' }, '--dry-run', 'train -- --dry-run'],
    [
      'train',
      ['train'],
      { steps: '10', val_every: '5' },
      '--steps=10 --val-every=5',
      'train -- --steps=10 --val-every=5',
    ],
    ['train', ['train', 'auto'], { batch: 'true' }, '--batch <B|auto>', 'train -- --batch <B|auto>'],
    ['bench', ['bench'], { ops: '' }, '--no-ops', 'bench -- --no-ops'],
    ['prepro', ['prepro', 'text', 'x'], { workers: '4' }, '--workers=4', 'prepro text -- --workers=4'],
    ['gpt2', ['export', 'x'], { model: 'true' }, '--model <NAME|PATH>', 'gpt2 export -- --model <NAME|PATH>'],
    ['my-own', ['train'], { resume: 'true' }, '--resume', 'my-own -- --resume'],
  ] as const)('npm run %s', async (script, args, settings, kept, typed) => {
    const environment = Object.fromEntries(
      Object.entries(settings).map(([name, value]) => [`npm_config_${name}`, value]),
    );
    const message = await refusal(script, [...args], environment);
    expect(message).toContain(`npm kept ${kept} to itself`);
    expect(message).toContain(`\`npm run ${typed}\``);
  });
});

it('leaves other starts alone', async () => {
  expect(await refusal('train', ['train', '--dry-run'], {})).toBeUndefined();
  expect(await refusal('train', ['train', '--json'], { npm_config_json: 'true' })).toBeUndefined();
  expect(await refusal('npx', ['train'], { npm_command: 'exec', npm_config_dry_run: 'true' })).toBeUndefined();
  expect(await refusal('prepack', ['train'], { npm_command: 'pack', npm_config_dry_run: 'true' })).toBeUndefined();
});

it('in the names that npm itself writes', () => {
  const train = (...args: string[]) =>
    spawnSync('npm', ['run', '--silent', 'train', ...args], { cwd: root, encoding: 'utf8' });
  const { status, stderr } = train('--dry-run', '--val-every=5');
  expect(stderr).toContain(
    'npm kept --val-every=5 --dry-run to itself: type `npm run train -- --val-every=5 --dry-run`',
  );
  expect(status).toBe(2);
  // npm sets these by itself.
  expect(train('--', '--data', 'nowhere', '--device', 'cpu').stderr).toContain('nowhere does not exist');
});
