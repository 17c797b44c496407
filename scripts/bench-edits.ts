// Times the kernel lab's loop: a naive kernel of an op is edited and saved under `kernel watch`, which compiles, tests and, on a GPU, times
// it. Prints the median of all edits, and of its parts. An edit changes the kernel's text, so that nothing comes from the cache.
//   node --import tsx scripts/bench-edits.ts [--op layernorm_forward,...] [--edits 20] [--dtype fp32] [--device auto]
import { spawn } from 'node:child_process';
import { appendFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { median } from '../src/bench/timing.ts';
import { newKernel } from '../src/lab/new-kernel.ts';
import { readFlags } from './flags.ts';

const flags = { op: 'layernorm_forward', edits: 20, dtype: 'fp32', device: 'auto' };
const { op, edits, dtype, device } = readFlags(flags);
for (const name of op.split(',')) {
  const parent = mkdtempSync(join(tmpdir(), 'gpt2-edits-'));
  const folder = join(parent, name);
  const source = newKernel(folder, [name]).find((file) => file.endsWith('.cu'))!;
  const watching = ['kernel', 'watch', folder, '--dtype', dtype, '--device', device];
  const child = spawn(process.execPath, ['--import', './scripts/tsx.mjs', 'src/cli.ts', ...watching], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const totals: number[] = [];
  const parts = new Map<string, number[]>();
  let [rounds, saved] = [0, 0];
  let wrong: string | undefined;
  for await (const line of createInterface({ input: child.stdout })) {
    if (/^wrong|failed|did not end/.test(line)) wrong = line;
    if (wrong !== undefined) break;
    const took = /^took .* s \((.*)\);/.exec(line);
    if (!took) continue;
    // The first round opens the device, and computes the expected values.
    if (rounds++ > 0) {
      totals.push(performance.now() - saved);
      for (const part of took[1]!.split(', ')) {
        const [key, seconds] = part.split(' ') as [string, string];
        parts.set(key, [...(parts.get(key) ?? []), Number(seconds)]);
      }
    }
    if (rounds > edits) break;
    saved = performance.now();
    appendFileSync(source, `// edit ${rounds}\n`);
  }
  child.kill('SIGKILL');
  rmSync(parent, { recursive: true, force: true });
  if (rounds <= edits) throw new Error(wrong ?? `kernel watch ended after ${rounds} rounds of ${name}`);
  const [least, most] = [Math.min(...totals), Math.max(...totals)].map((ms) => (ms / 1000).toFixed(2));
  const split = [...parts].map(([key, values]) => `${key} ${median(values).toFixed(2)}`).join(', ');
  console.log(`${name}: ${(median(totals) / 1000).toFixed(2)} s (${least} to ${most}), ${split}; ${edits} edits`);
}
