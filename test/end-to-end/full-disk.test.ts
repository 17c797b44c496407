// A disk that fills up while a run trains: the run says so and goes on, older checkpoints stay, no line of the log is lost.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { command, tinyModel, Workplace } from '../support/cli.ts';
import { noSmallDisk, onSmallDisk } from '../support/small-disk.ts';

let place: Workplace;
let data: string;
beforeAll(() => {
  place = new Workplace();
  data = place.data({ train: 9000 });
});
afterAll(() => place[Symbol.dispose]());

const train = () => [
  ...[process.execPath, ...command, 'train', '--data', data, ...tinyModel, '--sample-every', '0', '--val-every', '0'],
];

describe.skipIf(noSmallDisk !== undefined)(`a full disk${noSmallDisk ? ` (${noSmallDisk})` : ''}`, () => {
  it('costs a checkpoint, not the run, nor the checkpoint before', () => {
    // A checkpoint of the tiny model has 20 MB: one fits, two do not.
    const { stdout, code, stderr } = onSmallDisk(
      place.path('disk'),
      32,
      `disk=$1; shift
      "$@" --steps 9 --save-every 3 --out $disk/run || echo "exit $?"
      ls -A $disk/run/checkpoints
      wc -l <$disk/run/log.jsonl
      mount -o remount,size=96m $disk
      "$@" --steps 9 --out $disk/run --resume
      "$@" --steps 9 --out $disk/straight
      for run in run straight; do grep -o '"weights":".*"' $disk/$run/log.jsonl; done`,
      train(),
    );
    expect(code, stderr).toBe(0);
    expect(stdout).toMatch(/step 6 was not saved, training goes on: cannot write the checkpoint .*ENOSPC/);
    expect(stdout).toMatch(/step 8\/9/);
    expect(stderr).toMatch(/cannot write the checkpoint .*step-00000009: ENOSPC.*older checkpoints are untouched/);
    // Its run line, 9 steps, one checkpoint.
    expect(stdout).toMatch(/exit 1\nstep-00000003\n11\n/);
    const weights = stdout.match(/"weights":"[0-9a-f]{64}"/g)!;
    expect(weights.length).toBe(2);
    expect(weights[0]).toBe(weights[1]);
  });

  it('keeps lines of the log in memory until there is room', () => {
    const script = `
      import { rmSync, writeFileSync } from 'node:fs';
      import { RunLog } from '${new URL('../../src/runs/writer.ts', import.meta.url)}';
      import { configuration, trainEvent } from '${new URL('../runs/run-log.ts', import.meta.url)}';
      const [disk] = process.argv.slice(1);
      const log = RunLog.create(disk + '/run', { configuration, overwrite: false });
      const filler = disk + '/filler';
      let step = 0;
      const write = (count) => { for (let i = 0; i < count; i++) log.write(trainEvent(step++, 1)); };
      write(10);
      try { writeFileSync(filler, Buffer.alloc(8 << 20)); } catch {}
      write(1000);
      console.log(log.failure?.message);
      try { log.settle(); } catch (error) { console.log(error === log.failure); }
      rmSync(filler);
      write(1);
      console.log(log.failure);
      log.settle();
      log.close();
    `;
    const { stdout, code, stderr } = onSmallDisk(
      place.path('disk'),
      4,
      `disk=$1; shift; "$@" $disk; cat $disk/run/log.jsonl`,
      [process.execPath, ...command.slice(0, 2), '--input-type=module', '--eval', script],
    );
    expect(code, stderr).toBe(0);
    const [failure, same, mended, ...lines] = stdout.trim().split('\n');
    expect(failure).toMatch(/^cannot write \d+ lines to .*log\.jsonl: ENOSPC/);
    expect([same, mended]).toEqual(['true', 'undefined']);
    expect(lines.map((line) => (JSON.parse(line) as { step: number }).step)).toEqual(
      Array.from({ length: 1011 }, (_, step) => step),
    );
  });
});
