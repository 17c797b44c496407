// A disk that fills up, or turns read-only, while a run trains: the run says so and goes on, older checkpoints stay, no line
// of the log is lost.
import { describe, expect, it } from 'vitest';
import { loader } from '../support/built.ts';
import { command, tinyModel, workplace } from '../support/cli.ts';
import { noSmallDisk, onSmallDisk } from '../support/small-disk.ts';

const place = workplace();
/** A run on data with a vocabulary, which decides the size of its checkpoints. */
const train = (vocabulary: number) => {
  const data = place.data({ train: 9000, vocabulary, name: `of-${vocabulary}` });
  return [process.execPath, ...command, 'train', '--data', data, ...tinyModel, ...never];
};
const never = ['--sample-every', '0', '--val-every', '0'];
const grepWeights = `for run in run straight; do grep -o '"weights":".*"' $disk/$run/log.jsonl; done`;

/** Both runs of a script have ended with the same weights. */
function expectSameWeights(stdout: string): void {
  const [first, ...others] = stdout.match(/"weights":"[0-9a-f]{64}"/g)!;
  expect(others).toEqual([first]);
}

describe.skipIf(noSmallDisk !== undefined)(`a disk${noSmallDisk ? ` (${noSmallDisk})` : ''}`, () => {
  it('that fills up costs a checkpoint, not the run, nor the checkpoint before; the last save waits for room', () => {
    // A checkpoint of the tiny model has 20 MB: one fits, two do not.
    const { stdout } = onSmallDisk(
      place.path('disk'),
      32,
      `disk=$1; shift
      exec 3< <("$@" --steps 9 --save-every 3 --out $disk/run)
      while read -r line <&3; do echo "$line"; [[ $line != *'trying again'* ]] || break; done
      ls -A $disk/run/checkpoints
      wc -l <$disk/run/log.jsonl
      mount -o remount,size=96m $disk
      cat <&3
      "$@" --steps 9 --out $disk/straight
      ${grepWeights}`,
      train(50257),
    );
    expect(stdout).toMatch(/step 6 was not saved; training continues: cannot write the checkpoint .*ENOSPC/);
    expect(stdout).toMatch(/step 8\/9/);
    // Before there is room: its run line, 9 steps, one checkpoint, one that was not saved.
    expect(stdout).toMatch(
      /step 9 is not saved yet: cannot write the checkpoint .*ENOSPC.*trying again every 5 s, until Ctrl-C\nstep-00000003\n12\nsaved /,
    );
    expect(stdout).not.toMatch(/step 9 was not saved/);
    expectSameWeights(stdout);
  });

  it('that turns read-only costs the checkpoints of that time, not the run', () => {
    // The pipe holds the run back until its disk is read-only: it takes 64 KiB, some 400 lines. A disk on which the log is
    // open for writing cannot be remounted, so a read-only mount is laid over it, in which everything lies that is opened
    // from then on: a checkpoint too, which is waited for where one was begun just now. The log, open before, still reaches the disk.
    const { stdout, stderr } = onSmallDisk(
      place.path('disk'),
      32,
      `disk=$1; shift
      exec 3< <("$@" --steps 2000 --save-every 50 --json --out $disk/run || echo "exit $?")
      while read -r line <&3; do case $line in *'"event":"checkpoint"'*) break; esac; done
      mount --bind $disk $disk
      for try in {1..2000}; do mount -o remount,bind,ro $disk && break; sleep 0.05; done
      before=$(ls $disk/run/checkpoints)
      while read -r line <&3; do case $line in *'"step":1999,'*) break; esac; done
      echo "$line"
      sleep 1
      kill -INT $(cat /proc/$!/task/$!/children)
      cat <&3
      [ "$before" = "$(ls $disk/run/checkpoints)" ] && echo "kept $(wc -w <<<$before)"
      mount -o remount,bind,rw $disk
      "$@" --out $disk/run --resume
      ls -A $disk/run/checkpoints | tail -n 1
      "$@" --steps 2000 --out $disk/straight
      ${grepWeights}`,
      [...train(100), '--batch', '1', '--seq', '16'],
    );
    const untouched = 'EROFS: read-only file system.*older checkpoints are untouched';
    const notSaved = 'step 1950 was not saved; training continues: cannot write the checkpoint';
    expect(stderr).toMatch(new RegExp(`${notSaved}.*${untouched}`));
    expect(stderr).toMatch(new RegExp(`^cannot write the checkpoint .*step-00002000: ${untouched}.*\n$`, 'm'));
    expect(stdout).toMatch(
      /^{"event":"train","step":1999,.*}\n{"event":"notSaved","step":2000,.*}\nexit 1\nkept \d+$/m,
    );
    expect(stdout).toMatch(/from step \d+,/);
    expect(stdout).toMatch(/^step-00002000$/m);
    expectSameWeights(stdout);
  });

  it('that fills up: lines of the log are kept in memory until there is room', () => {
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
      try { log.flush(); } catch (error) { console.log(error === log.failure); }
      rmSync(filler);
      write(1);
      console.log(log.failure);
      log.flush();
      log.close();
    `;
    const node = [process.execPath, '--import', loader, '--input-type=module', '--eval', script];
    const { stdout } = onSmallDisk(place.path('disk'), 4, `disk=$1; shift; "$@" $disk; cat $disk/run/log.jsonl`, node);
    const [failure, same, mended, ...lines] = stdout.trim().split('\n');
    expect(failure).toMatch(/^cannot write \d+ lines to .*log\.jsonl: ENOSPC/);
    expect([same, mended]).toEqual(['true', 'undefined']);
    expect(lines.map((line) => (JSON.parse(line) as { step: number }).step)).toEqual(
      Array.from({ length: 1011 }, (_, step) => step),
    );
  });
});
