// Measures the speed and the memory of `prepro text`: makes a text by repeating and varying Shakespeare (GPT2_DATASETS) and
// encodes it with our program; with --kills N, again, killed N times; with --python, by Python's tiktoken too, and compares
// the ids. `node --import tsx scripts/bench-prepro.ts --gigabytes 0.5,2 --kills 2 --python /path/to/python`
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { closeSync, mkdirSync, openSync, readFileSync, rmSync, statSync, writeSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { packageRoot } from '../src/package-root.ts';
import { findShards, type Role, readDataset } from '../src/shards/find.ts';
import { openShard } from '../src/shards/shard.ts';
import { endOfText } from '../src/tokenizer/tokenizer.ts';
import { readFlags } from './flags.ts';

const values = readFlags({
  ...{ gigabytes: '0.5,2', workers: availableParallelism(), python: '', kills: 0, keep: false },
  folder: join(tmpdir(), 'bench-prepro'),
});
const datasets = process.env.GPT2_DATASETS ?? join(packageRoot, '../shared/datasets');
const play = readFileSync(join(datasets, 'tinyshakespeare', 'input.txt'), 'utf8').split('\n\n');

/** Writes copies of the play: paragraphs shuffled, one word in twelve invented, and now and then a line in another script. */
function makeText(path: string, bytes: number): void {
  let state = 1;
  const below = (bound: number) => {
    state = (Math.imul(state, 1664525) + 1013904223) | 0;
    return (((state >>> 8) * bound) / 2 ** 24) | 0;
  };
  const syllables = 'ra ben to mi lor an est ic dun ish er ol qua vy thel é'.split(' ');
  const invented = () => Array.from({ length: 1 + below(4) }, () => syllables[below(16)]).join('');
  const foreign = [
    'Это было весной, “очень” рано.',
    '天地玄黃，宇宙洪荒。日月盈昃，辰宿列張。',
    'Γιατί όχι; 🦜 — naïve café…',
  ];
  const file = openSync(path, 'w');
  for (let written = 0; written < bytes; ) {
    const paragraphs: string[] = [];
    for (let count = 0; count < 2000; count++) {
      const paragraph = play[below(play.length)]!;
      paragraphs.push(paragraph.replaceAll(/[A-Za-z]+/g, (word) => (below(12) === 0 ? invented() : word)));
      if (below(40) === 0) paragraphs.push(foreign[below(3)]!);
    }
    written += writeSync(file, `${paragraphs.join('\n\n')}\n\n`);
  }
  closeSync(file);
}

/** A module that prints a process's times and memory, with those of its threads, when it ends. */
const printsUsage = `data:text/javascript,
import { isMainThread } from 'node:worker_threads';
if (isMainThread) process.on('exit', () => console.error(JSON.stringify(process.resourceUsage())));`;

/** Runs prepro, or kills it after some milliseconds: then there is no result. */
function prepro(text: string, out: string, workers: number, killAfter?: number) {
  const imports = ['--import', 'tsx', '--import', printsUsage];
  const args = ['src/cli.ts', 'prepro', 'text', text, '--out', out, '--workers', String(workers)];
  const begun = performance.now();
  const { status, signal, stderr } = spawnSync(process.execPath, [...imports, ...args], {
    ...{ cwd: packageRoot, encoding: 'utf8', stdio: ['ignore', 'ignore', 'pipe'] },
    ...{ timeout: killAfter, killSignal: 'SIGKILL' },
  });
  const seconds = (performance.now() - begun) / 1000;
  if (signal) return undefined;
  if (status !== 0) throw new Error(stderr);
  const usage = JSON.parse(stderr.trimEnd().split('\n').at(-1)!) as NodeJS.ResourceUsage;
  const cpuSeconds = (usage.userCPUTime + usage.systemCPUTime) / 1e6;
  return { seconds, cpuSeconds, peakBytes: usage.maxRSS * 1024 };
}

/** Runs tiktoken on the same file and ranks, on one core; prints the count, the seconds of encoding alone, and sha256 of the ids. */
const pythonProgram = `
import base64, hashlib, json, sys, time, array, tiktoken
ranks = {}
for line in json.load(open(sys.argv[1]))["bpe_ranks"].split("\\n"):
    parts = line.split(" ")
    offset = int(parts[1])
    for index, token in enumerate(parts[2:]): ranks[base64.b64decode(token)] = offset + index
pattern = r"""'(?:[sdmt]|ll|ve|re)| ?\\p{L}++| ?\\p{N}++| ?[^\\s\\p{L}\\p{N}]++|\\s++$|\\s+(?!\\S)|\\s"""
encoding = tiktoken.Encoding("r50k", pat_str=pattern, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 50256})
digest, count, seconds, cpu, rest = hashlib.sha256(), 0, 0.0, 0.0, ""
with open(sys.argv[2], encoding="utf8", newline="") as file:
    while True:
        text = file.read(1 << 22)
        whole = rest + text
        # Cutting at a line break after a letter or digit changes no id.
        cut = len(whole)
        if text:
            while not (whole[cut - 1] == "\\n" and cut > 1 and whole[cut - 2].isalnum()): cut -= 1
            cut -= 1
        whole, rest = whole[:cut], whole[cut:]
        begun, begun_cpu = time.perf_counter(), time.process_time()
        ids = encoding.encode_ordinary(whole)
        seconds += time.perf_counter() - begun
        cpu += time.process_time() - begun_cpu
        count += len(ids)
        digest.update(array.array("H", ids).tobytes())
        if not text: break
print(json.dumps({"tokens": count, "seconds": seconds, "cpu": cpu, "sha256": digest.hexdigest()}))
`;

/** The sha256 of one document's ids, which both roles share in turn; each stretch begins with an end of text. */
function hashOfDocument(folder: string, first: Role): string {
  const streams = { train: stretches(folder, 'train'), val: stretches(folder, 'val') };
  const hash = createHash('sha256');
  for (let role = first; ; role = role === 'train' ? 'val' : 'train') {
    let part = streams[role].next();
    if (part.done) return hash.digest('hex');
    for (; !part.done && part.value.length > 0; part = streams[role].next()) hash.update(part.value);
  }
}

/** Tokens in parts; an empty one ends a stretch. */
function* stretches(folder: string, role: Role): Generator<Uint16Array> {
  let isFirst = true;
  for (const path of findShards(folder, role)) {
    using shard = openShard(path);
    for (let start = 0; start < shard.tokens; start += 1 << 20) {
      const tokens = shard.read(start, Math.min(1 << 20, shard.tokens - start));
      for (let from = 0; from < tokens.length; ) {
        const at = tokens.indexOf(endOfText, from);
        const to = at < 0 ? tokens.length : at;
        if (to > from) yield tokens.subarray(from, to);
        if (at >= 0 && !isFirst) yield new Uint16Array(0);
        if (at >= 0) isFirst = false;
        from = to + 1;
      }
    }
  }
}

const millions = (value: number) => `${(value / 1e6).toFixed(2)}M`;
mkdirSync(values.folder, { recursive: true });
for (const gigabytes of values.gigabytes.split(',').map(Number)) {
  const text = join(values.folder, `${gigabytes}.txt`);
  makeText(text, gigabytes * 1e9);
  const bytes = statSync(text).size;
  console.log(`${gigabytes} GB: ${bytes} bytes, one document`);
  const out = join(values.folder, `shards-${gigabytes}`);
  let last = 0;
  for (const workers of new Set([1, values.workers])) {
    rmSync(out, { recursive: true, force: true });
    const { seconds, cpuSeconds, peakBytes } = prepro(text, out, workers)!;
    last = seconds;
    const tokens = readDataset(out)!.shards.reduce((sum, shard) => sum + shard.tokens, 0);
    const perCore = millions(tokens / cpuSeconds);
    console.log(
      `  prepro text --workers ${workers}: ${millions(tokens)} tokens in ${seconds.toFixed(1)} s, ${millions(tokens / seconds)} tokens/s, ` +
        `${perCore} a second of CPU time (${cpuSeconds.toFixed(1)} s), ${(bytes / seconds / 1e6).toFixed(0)} MB/s, peak ${(peakBytes / 1e6).toFixed(0)} MB`,
    );
  }
  if (values.kills) {
    const killed = join(values.folder, 'killed', `shards-${gigabytes}`);
    rmSync(killed, { recursive: true, force: true });
    const moments = Array.from({ length: values.kills }, () => Math.floor(Math.random() * 1000 * last));
    for (const moment of moments) prepro(text, killed, values.workers, moment);
    const { seconds } = prepro(text, killed, values.workers)!;
    const hashes = (folder: string) => JSON.stringify(readDataset(folder)!.shards);
    const isSame = hashes(killed) === hashes(out);
    const when = moments.map((moment) => `${(moment / 1000).toFixed(1)} s`).join(', ');
    console.log(
      `  killed after ${when}, done ${seconds.toFixed(1)} s later: ${isSame ? 'the same bytes' : 'OTHER BYTES'}`,
    );
    if (!isSame) process.exitCode = 1;
    rmSync(killed, { recursive: true });
  }
  if (values.python) {
    const ranks = join(packageRoot, 'node_modules/tiktoken/encoders/r50k_base.json');
    const printed = execFileSync(values.python, ['-c', pythonProgram, ranks, text], { encoding: 'utf8' });
    const found = JSON.parse(printed) as { tokens: number; seconds: number; cpu: number; sha256: string };
    console.log(
      `  Python's tiktoken, one core: ${millions(found.tokens)} tokens, ${millions(found.tokens / found.seconds)} tokens/s, ${millions(found.tokens / found.cpu)} a second of CPU time, ${(bytes / found.seconds / 1e6).toFixed(1)} MB/s`,
    );
    const isSame = (['train', 'val'] as const).some((first) => hashOfDocument(out, first) === found.sha256);
    console.log(`  ${isSame ? 'the same ids, one for one' : 'OTHER IDS'}`);
    if (!isSame) process.exitCode = 1;
  }
  if (!values.keep) rmSync(text);
}
