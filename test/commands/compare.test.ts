// `compare` as a user calls it: what it prints, what it draws, and the errors that become exit codes.
import { appendFileSync, constants, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Gpt2Error, UsageError } from '../../src/base/errors.ts';
import { compareCommand } from '../../src/commands/compare.ts';
import type { Configuration } from '../../src/options/table.ts';
import { readReference } from '../../src/report/compare/reference.ts';
import { lockRun } from '../../src/runs/lock.ts';
import { logPath } from '../../src/runs/paths.ts';
import type { RunSeries } from '../../src/runs/reader.ts';
import { formatEvent, type RunEvent } from '../../src/runs/schema.ts';
import { runEvent, trainEvent, writeLog } from '../runs/run-log.ts';
import { workplace } from '../support/cli.ts';

const reference = readReference('llmc-d6-fp32-b4-t64');

const place = workplace('each');
let run: string;
// A run whose curves are the reference's.
beforeEach(() => {
  run = writeRun({});
});
afterEach(() => {
  vi.restoreAllMocks();
});

/** A run folder whose log holds these series. */
function writeRun(series: Partial<RunSeries>, changes: Partial<Configuration> = {}, name = 'run'): string {
  const { train, val, norm, lr } = { ...reference.series, ...series };
  const [norms, rates] = [new Map(norm), new Map(lr)];
  const lines = [
    runEvent(changes),
    ...val.map(([step, loss]) => ({ event: 'val', step, loss }) as const),
    ...train.map(([step, loss]) => trainEvent(step, loss, norms.get(step), rates.get(step))),
  ];
  writeLog(place.path(name), lines);
  return place.path(name);
}

/** The command's output, and the error that ends it. */
async function compare(...args: string[]): Promise<{ stdout: string; error: unknown }> {
  let stdout = '';
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    stdout += String(text);
    return true;
  });
  const command = compareCommand()
    .exitOverride()
    .configureOutput({ writeErr: () => {} });
  try {
    await command.parseAsync([run, ...args], { from: 'user' });
    return { stdout, error: undefined };
  } catch (error) {
    return { stdout, error };
  } finally {
    vi.restoreAllMocks();
  }
}

/** The one line of an error with exit code 1. */
function messageOf(error: unknown): string {
  expect(error).toBeInstanceOf(Gpt2Error);
  expect((error as Gpt2Error).exitCode).toBe(1);
  const { message } = error as Gpt2Error;
  expect(message).not.toContain('\n');
  return message;
}

const changed = (points: RunSeries['train'], step: number, by: number): RunSeries['train'] =>
  points.map(([at, value]) => [at, at === step ? value + by : value]);

describe('inside', () => {
  it('prints the table and the verdict, draws the plot into the run folder', async () => {
    const { stdout, error } = await compare();
    expect(error).toBeUndefined();
    expect(stdout).toContain(`${run} vs llmc-d6-fp32-b4-t64\n`);
    expect(stdout).toMatch(/^train +400 +0 +0 +0 +none +6\.2431 +6\.2431$/m);
    expect(stdout).toMatch(/^lr +400 .* 6\.00e-5 +6\.00e-5$/m);
    expect(stdout).toContain('last validation in common, at step 400: 5.8942, reference 5.8942');
    expect(stdout).toContain('steps judged: train 120 of 400, val 9 of 9, norm 100 of 400, lr 400 of 400');
    const plot = place.path('run', 'compare.svg');
    expect(stdout.endsWith(`plot: ${plot}\nreport: ${place.path('run', 'compare.html')}\n`)).toBe(true);
    expect(readFileSync(plot, 'utf8')).toContain('run vs llmc-d6-fp32-b4-t64');
  });

  it('a run that has just begun is compared as far as it goes', async () => {
    writeRun({ train: reference.series.train.slice(0, 3), val: [] });
    const { stdout, error } = await compare();
    expect(error).toBeUndefined();
    expect(stdout).toMatch(/^train +3 /m);
    expect(stdout).toMatch(/^val +0 +- +- +- +none +- +-$/m);
    expect(stdout).not.toContain('last validation');
  });

  it('--reference takes a file, --out a place, --tolerance another limit', async () => {
    const own = place.path('own.json');
    writeFileSync(own, JSON.stringify({ ...reference, name: 'own', configuration: { batch: 4 }, limits: [] }));
    writeRun({ train: changed(reference.series.train, 7, 0.3) });
    const plot = place.path('plot.svg');
    expect(await compare('--reference', own, '--out', plot)).toMatchObject({ error: undefined });
    expect(existsSync(plot)).toBe(true);
    expect(existsSync(place.path('run', 'compare.svg'))).toBe(false);
    const { stdout, error } = await compare('--tolerance', '0.5');
    expect(error).toBeUndefined();
    expect(stdout).toContain('inside the limit of --tolerance 0.5; steps judged: train 400 of 400');
  });
});

describe('outside', () => {
  it('prints the table and draws the plot, then names series, step, distance and limit', async () => {
    writeRun({ train: changed(changed(reference.series.train, 7, -0.001), 300, 9) });
    const { stdout, error } = await compare();
    expect(messageOf(error)).toBe(
      'outside the limits of llmc-d6-fp32-b4-t64: train at step 7 is off by 1.00e-3, over 2.00e-4',
    );
    expect(stdout).toMatch(/^train +400 +9\.0000 +300 .* 7 /m);
    expect(stdout).not.toContain('inside');
    expect(existsSync(place.path('run', 'compare.svg'))).toBe(true);
  });

  it('names every series that is, a mean among them', async () => {
    const own = place.path('own.json');
    const limits = [
      { series: 'train', kind: 'mean', from: 0, to: 9, within: 0.001 },
      { series: 'val', from: 0, to: 400, within: 0.001 },
    ];
    writeFileSync(own, JSON.stringify({ ...reference, name: 'own', limits }));
    writeRun({ train: changed(reference.series.train, 5, 0.1), val: changed(reference.series.val, 50, 0.01) });
    const { stdout, error } = await compare('--reference', own);
    expect(messageOf(error)).toBe(
      'outside the limits of own: train is off by 1.00e-2 on average over steps 0 to 9, over 1.00e-3; val at step 50 is off by 1.00e-2, over 1.00e-3',
    );
    expect(stdout).toContain('mean of 0-9');
  });
});

describe('other validations, other data', () => {
  it('validated otherwise than the reference: inside, without val, and the flag that gives it', async () => {
    writeRun({}, { valSteps: 7 });
    const { stdout, error } = await compare();
    expect(error).toBeUndefined();
    expect(stdout).not.toMatch(/^val /m);
    expect(stdout).not.toContain('last validation');
    expect(stdout).toContain(
      "\nleft out: val, validated on other tokens; --val-steps 20 gives the reference's (train --preset llmc-d6-fp32-b4-t64)\n",
    );
    expect(stdout).toContain('steps judged: train 120 of 400, norm 100 of 400, lr 400 of 400\n');
    const json = JSON.parse((await compare('--json')).stdout);
    expect(json.series.map(({ series }: { series: string }) => series)).toEqual(['train', 'norm', 'lr']);
    const drawn = (file: string) => readFileSync(place.path('run', file), 'utf8');
    expect(drawn('compare.svg').match(/<circle/g)?.length).toBeLessThan(2 * reference.series.val.length);
    expect(JSON.parse(/id="data">(.*)<\/script>/.exec(drawn('compare.html'))![1]!).curves[0].series.val.values).toEqual(
      [],
    );
    expect((await compare('--tolerance', '0')).error).toBeUndefined();
  });

  it('of other data: said first, with bits per byte, and no tolerance judges it', async () => {
    const val = { event: 'val', step: 400, loss: 2.5, tokens: 1000, bytes: 4000 } as const;
    appendFileSync(logPath(run), formatEvent(val));
    const other = writeRun({}, { data: 'data/own-source', vocabularySize: 512 }, 'other');
    appendFileSync(logPath(other), formatEvent({ ...val, bytes: 2000 }));
    const reason =
      'losses of training and validation cannot be compared: data data/own-source instead of data/tinyshakespeare, vocabularySize 512 instead of 50257; bits per byte 1.8034 instead of 0.9017';
    const { stdout, error } = await compare(other);
    expect(error).toBeUndefined();
    expect(stdout.slice(0, stdout.indexOf('series'))).toBe(`${reason}\n${other} vs ${run}\n`);
    expect(stdout).not.toMatch(/^(train|val) /m);
    expect(JSON.parse((await compare(other, '--json')).stdout)).toMatchObject({
      unlike: [reason],
      bitsPerByte: expect.closeTo(1.8034, 4),
    });
    expect(readFileSync(place.path('compare.html'), 'utf8')).toContain(`"other vs run: ${reason}"`);
    expect(messageOf((await compare(other, '--tolerance', '9')).error)).toBe(`${reason}; leave out --tolerance`);
    const third = writeRun({}, { seed: 7 }, 'third');
    expect((await compare(other, third)).stdout).toContain('cannot be compared');
    expect((await compare(other, third)).stdout).toMatch(
      /^Ranking by last validation loss: losses .*\nrun .* bits\/byte /,
    );
  });

  it('ties are marked in text, JSON and report', async () => {
    const sequenceLosses = [4, 5, 6, 5];
    for (const [name, by] of [
      ['run', [0, 0, 0, 0]],
      ['b', [0.1, -0.1, 0.1, 0]],
      ['c', [0.5, 0.5, 0.6, 0.4]],
    ] as const) {
      const losses = sequenceLosses.map((loss, index) => loss + by[index]!);
      const loss = losses.reduce((sum, one) => sum + one, 0) / 4;
      const val = { event: 'val', step: 400, loss, tokens: 256, sequenceLosses: losses } as const;
      appendFileSync(logPath(writeRun({}, { seed: name.length + by[0] * 10 }, name)), formatEvent(val));
    }
    const others = [place.path('b'), place.path('c')];
    const { stdout } = await compare(...others);
    expect(stdout).toContain(`Ranking by last validation loss
run  seed  last val               behind  best val  at step    steps    state
run     3    5.0000                    -    5.0000      400  400/400  stopped
b       2    5.0250  0.0250 ± 0.0479 tie    5.0250      400  400/400  stopped
c       6    5.5000      0.5000 ± 0.0408    5.5000      400  400/400  stopped
tie: behind the first by less than 0.00005 or twice the standard error (±) over the sequences; seeds can differ by more
`);
    const { ranking } = JSON.parse((await compare(...others, '--json')).stdout);
    expect(ranking.map(({ behind }: { behind: { isTie: boolean } | null }) => behind?.isTie)).toEqual([
      undefined,
      true,
      false,
    ]);
    expect(readFileSync(place.path('compare.html'), 'utf8')).toContain('"0.0250 ± 0.0479 tie"');
  });
});

describe('several', () => {
  const shifted = (by: number) => reference.series.train.map(([step, loss]) => [step, loss + by] as const);

  it('runs of one configuration each over its reference; what is outside is told run by run', async () => {
    const other = writeRun({ train: changed(reference.series.train, 7, 0.3) }, {}, 'other');
    const { stdout, error } = await compare(other);
    expect(messageOf(error)).toBe(
      `outside the limits of llmc-d6-fp32-b4-t64 is ${other}: train at step 7 is off by 0.3000, over 2.00e-4`,
    );
    expect(stdout).toContain(`${run} vs llmc-d6-fp32-b4-t64\n`);
    expect(stdout).toContain(`\n\n${other} vs llmc-d6-fp32-b4-t64\n`);
    expect(readFileSync(place.path('compare.svg'), 'utf8')).toContain('>other, validation<');
  });

  it('runs without a common reference over the first of them, with what they differ in', async () => {
    const other = writeRun({ train: shifted(0.25) }, { learningRate: 1e-3, device: 'cuda' }, 'other');
    const { stdout, error } = await compare(other);
    expect(error).toBeUndefined();
    expect(stdout).toContain(`${other} vs ${run}\n`);
    expect(stdout).toMatch(/^train +400 +0\.2500 +\d+ +0\.2500 +- +6\.4931 +6\.2431$/m);
    expect(stdout).toContain('configured with learningRate 0.001 instead of 0.0006\n');
    expect(stdout).toContain('a run has no limits: --tolerance sets one');
    expect(stdout).not.toContain('inside');
  });

  it('says what was configured otherwise before a resume', async () => {
    writeRun({}, { dtype: 'fp8' });
    const resumed = { ...runEvent({ dtype: 'fp32' }), resumedFrom: 200 };
    appendFileSync(logPath(run), formatEvent(resumed));
    const { stdout } = await compare(writeRun({}, {}, 'other'));
    expect(stdout).toContain('run: until step 200 configured with dtype fp8 instead of fp32\n');
    expect(stdout).not.toContain('other: until');
  });

  it('--reference names a run, whatever its configuration; --tolerance then judges', async () => {
    const other = writeRun({ train: shifted(0.25) }, { seed: 7 }, 'other');
    expect((await compare('--reference', other)).error).toBeUndefined();
    const { stdout, error } = await compare('--reference', other, '--tolerance', '0.1');
    expect(stdout).toContain(`${run} vs ${other}\n`);
    expect(messageOf(error)).toMatch(/^outside the limits of other: train at step 0 is off by 0\.2500, over 0\.1000/);
  });

  it('a learning rate and its differences are written in one form', async () => {
    const lr = reference.series.lr.map(([step, rate]) => [step, rate + 3e-4] as const);
    const other = writeRun({ lr }, { seed: 7 }, 'other');
    const { stdout } = await compare('--reference', other);
    expect(stdout).toMatch(/^lr +400 +3\.00e-4 +\d+ +3\.00e-4 +- +6\.00e-5 +3\.60e-4$/m);
  });

  it('of runs that share a beginning, the last validation is said to be of both', async () => {
    const other = writeRun({ val: reference.series.val.slice(0, 1) }, { seed: 7 }, 'other');
    const { stdout } = await compare('--reference', other);
    expect(stdout).toContain('last validation in common, at step 0: 10.8722, reference 10.8722');
    expect(stdout).not.toContain('final');
  });

  it('--reference more than once: over each', async () => {
    const own = place.path('own.json');
    writeFileSync(own, JSON.stringify({ ...reference, name: 'own' }));
    const { stdout, error } = await compare('--reference', 'llmc-d6-fp32-b4-t64', '--reference', own);
    expect(error).toBeUndefined();
    expect(stdout).toMatch(/vs llmc-d6-fp32-b4-t64\n[\s\S]*vs own\n/);
  });

  it('more than two without a reference: one ranking by validation loss, with the options that differ', async () => {
    writeRun({}, { learningRate: 1e-3 });
    const val = (last: number) => [[0, 10.9], [50, 5.1], [100, last]] as const; // biome-ignore format: one line
    const best = writeRun(
      { val: val(5.5) },
      { seed: 7, device: 'cuda', valEvery: 5, data: '/a/tinyshakespeare' },
      'best',
    );
    const bad = writeRun({ val: val(Number.NaN), train: [[0, 9]] }, {}, 'bad');
    const none = writeRun({ val: [], train: [] }, { batch: 8 }, 'none');
    const finished = { event: 'done', steps: 400, seconds: 1, weights: 'x' } as const;
    appendFileSync(logPath(run), formatEvent(finished));
    appendFileSync(
      logPath(bad),
      formatEvent({ event: 'nonFinite', step: 1, loss: Number.NaN, norm: 1, finding: 'NaN in layer 3' }),
    );
    const lock = lockRun(none, constants.O_RDWR)!;
    const { stdout, error } = await compare(bad, none, best);
    const json = JSON.parse((await compare(bad, none, best, '--json')).stdout);
    lock.close();
    expect(error).toBeUndefined();
    expect(stdout).toBe(`Ranking by last validation loss
run   seed  batch      lr  last val  best val  at step    steps     state
best     7      4  0.0006    5.5000    5.1000       50  400/400   stopped
run     42      4   0.001    5.8942    5.8942      400  400/400  finished
bad     42      4  0.0006         -    5.1000       50    1/400    failed
none    42      8  0.0006         -         -        -    0/400   running
plot: ${place.path('compare.svg')}
report: ${place.path('compare.html')}
`);
    expect(json.ranking[0]).toEqual({
      ...{ run: best, name: 'best', options: { batch: 4, learningRate: 6e-4, seed: 7 }, last: 5.5 },
      ...{ behind: null, bitsPerByte: null, best: { step: 50, loss: 5.1 }, steps: 400, ofSteps: 400, state: 'stopped' },
    });
    const report = readFileSync(place.path('compare.html'), 'utf8');
    expect(report).toContain('"title":"Ranking by last validation loss"');
    // None is the baseline of the others.
    expect(report).toContain('"title":"4 runs"');
    expect(report).toContain('"baseline":-1');
    expect(readFileSync(place.path('compare.svg'), 'utf8')).not.toContain('|difference|');
    expect((await compare(bad, best, '--tolerance', '0.1')).stdout).toContain(`${best} vs ${run}\n`);
    expect((await compare(best, none, '--reference', bad)).stdout).not.toContain('Ranking');
  });

  it('of one folder are plotted there, and the plot in it is no run; of several folders, in the first', async () => {
    const [a, b] = ['sweep/seed=1', 'sweep/seed=2'].map((name) => writeRun({}, {}, name));
    const shell = (...more: string[]) => place.run(['compare', ...more]);
    const names = ['sweep/compare.html', 'sweep/compare.svg', 'sweep/seed=1', 'sweep/seed=2'];
    for (const given of [names.slice(2), names]) {
      const { code, stdout, stderr } = shell(...given);
      expect(code, stderr).toBe(0);
      expect(stdout).toMatch(/\nplot: sweep\/compare\.svg\nreport: sweep\/compare\.html\n$/);
      expect(readdirSync(place.path('sweep'))).toEqual(names.map((name) => basename(name)));
    }
    expect(readdirSync(a!)).toEqual(readdirSync(b!));
    expect(shell('run', 'sweep/seed=1').stdout).toMatch(/\nplot: run\/compare\.svg\n/);
  });

  it('--json: one object with a list', async () => {
    const other = writeRun({}, {}, 'other');
    const { stdout } = await compare(other, '--json');
    expect(JSON.parse(stdout)).toMatchObject({
      plot: place.path('compare.svg'),
      report: place.path('compare.html'),
      comparisons: [
        { run, inside: true },
        { run: other, inside: true },
      ],
    });
  });

  it('one that is not configured as the reference given is named', async () => {
    const other = writeRun({}, { batch: 8 }, 'other');
    expect(messageOf((await compare(other, '--reference', 'llmc-d6-fp32-b4-t64')).error)).toMatch(
      /other is not configured as llmc-d6-fp32-b4-t64: batch 8 instead of 4;/,
    );
  });
});

describe('how runs ended', () => {
  const bad = { event: 'nonFinite', step: 9, loss: Number.NaN, norm: 1, finding: 'NaN in layer 3' } as const;
  const say = (folder: string, event: RunEvent) => appendFileSync(logPath(folder), formatEvent(event));
  const notFinite = 'not finite at step 9 of 400: NaN in layer 3';

  it('alone, over a reference, in JSON', async () => {
    say(writeRun({ train: reference.series.train.slice(0, 9), val: [] }), bad);
    expect((await compare()).stdout).toContain(`\nrun: ${notFinite}\n`);
    expect(readFileSync(place.path('run', 'compare.html'), 'utf8')).toContain(`"run: ${notFinite}"`);
    expect(JSON.parse((await compare('--json')).stdout)).toMatchObject({
      end: { state: 'notFinite', text: notFinite },
    });
    say(writeRun({}, { data: 'data/own-source' }), { event: 'done', steps: 400, seconds: 1, weights: 'x' });
    expect((await compare()).stdout).toContain('\nfinished after 400 of 400 steps\n');
  });

  it('of two runs, both', async () => {
    say(run, bad);
    const other = writeRun({ train: reference.series.train.slice(0, 9) }, { seed: 7 }, 'other');
    const { stdout } = await compare('--reference', other);
    expect(stdout).toContain(`\nrun: ${notFinite}\nother: not finished, 9 of 400 steps done: `);
  });
});

describe('what is drawn', () => {
  it('a report beside the plot, or where --html says', async () => {
    await compare('--out', place.path('a.svg'));
    expect(readFileSync(place.path('a.html'), 'utf8')).toContain('run vs llmc-d6-fp32-b4-t64');
    await compare('--out', place.path('b.svg'), '--html', place.path('c.htm'));
    expect(existsSync(place.path('c.htm'))).toBe(true);
    expect(existsSync(place.path('b.html'))).toBe(false);
  });

  it('a PNG by the name of --out', async () => {
    expect((await compare('--out', place.path('a.png'))).error).toBeUndefined();
    expect(readFileSync(place.path('a.png')).subarray(1, 4).toString()).toBe('PNG');
  });

  it('--plot draws in the terminal, without colours where stdout is none', async () => {
    const { stdout } = await compare('--plot');
    expect(stdout).toContain('training loss (nats), smoothed');
    expect(stdout).toContain('  * run\n');
    expect(stdout).not.toContain('\u001b');
  });
});

describe('--over', () => {
  const files = () => ['svg', 'html'].map((kind) => readFileSync(place.path(`compare.${kind}`), 'utf8'));

  it('plot, report and terminal are over tokens or seconds; table, verdict and ranking stay by step', async () => {
    const other = writeRun({}, { totalBatch: 1024 }, 'other');
    const { stdout: overSteps } = await compare(other);
    for (const [over, label, last] of [
      ['tokens', 'thousand tokens', 409.6],
      ['seconds', 'seconds of training', 0.4],
    ] as const) {
      const { stdout, error } = await compare(other, '--over', over, '--plot');
      expect(error).toBeUndefined();
      expect(stdout.split('\n')).toEqual(expect.arrayContaining(overSteps.split('\n')));
      expect(stdout).toMatch(new RegExp(`^ +${label}$`, 'm'));
      const [svg, html] = files();
      expect(svg).toContain(`>${label}<`);
      expect(html).toContain(`"axis":{"label":"${label}","unit":"${label}",`);
      expect(Number(/"last":([\d.]+)/.exec(html!)![1])).toBeCloseTo(last);
    }
    const third = writeRun({}, { seed: 7 }, 'third');
    const { stdout: ranking } = await compare(other, third);
    expect(ranking).toContain('Ranking');
    expect((await compare(other, third, '--over', 'tokens')).stdout).toBe(ranking);
  });

  it('a reference has tokens and no seconds: one line, and nothing is written', async () => {
    expect((await compare('--over', 'tokens')).stdout).toContain('inside the limits');
    const svg = place.path('seconds.svg');
    const { stdout, error } = await compare('--over', 'seconds', '--out', svg);
    expect(messageOf(error)).toBe(
      'llmc-d6-fp32-b4-t64 does not record the seconds before step 400: take another --over, or a run as --reference',
    );
    expect(stdout).toBe('');
    expect(existsSync(svg)).toBe(false);
  });
});

describe('no reference to be judged by', () => {
  it('own data: its own table, the plot, and exit 0', async () => {
    writeRun({}, { data: 'data/own-source' });
    const { stdout, error } = await compare();
    expect(error).toBeUndefined();
    expect(stdout).toContain("no reference has this run's configuration; its own figures:");
    expect(stdout).toMatch(/^train +400 +10\.8719 +4\.\d+ +6\.2431$/m);
    expect(stdout).toMatch(/^lr +400 +1\.50e-5 +1\.50e-5 +6\.00e-5$/m);
    expect(stdout).not.toContain('nearest');
    expect(readFileSync(place.path('run', 'compare.svg'), 'utf8')).not.toContain('reference');
  });

  it('--tolerance has nothing to judge by, which is a usage error and writes nothing', async () => {
    writeRun({}, { data: 'data/own-source' });
    const { stdout, error } = await compare('--tolerance', '0.1');
    expect(error).toBeInstanceOf(UsageError);
    expect((error as UsageError).message).toMatch(
      /^--tolerance needs something to compare .*run with: .*--reference.*second run$/,
    );
    expect(stdout).toBe('');
    expect(existsSync(place.path('run', 'compare.svg'))).toBe(false);
  });

  it('a reference that is nearly it is named with what differs', async () => {
    writeRun({}, { steps: 100, warmup: 0 });
    expect((await compare()).stdout).toContain(
      'nearest: llmc-d6-fp32-b4-t64 (train --preset llmc-d6-fp32-b4-t64), but steps 100 instead of 400, warmup 0 instead of 40',
    );
    writeRun({}, { order: 'sequence' });
    expect((await compare()).stdout).toContain(
      'nearest: llmc-d6-fp32-b4-t64 (train --preset llmc-d6-fp32-b4-t64), but order sequence instead of llmc\n',
    );
  });

  it('a run that was told to be compared with another configuration is refused field by field', async () => {
    writeRun({}, { batch: 8, seed: 1 });
    const { stdout, error } = await compare('--reference', 'llmc-d6-fp32-b4-t64');
    expect(messageOf(error)).toBe(
      'the run is not configured as llmc-d6-fp32-b4-t64: batch 8 instead of 4, seed 1 instead of 42; train with these (train --preset llmc-d6-fp32-b4-t64), or name another --reference',
    );
    expect(stdout).toBe('');
  });

  it('a run without a step yet is not inside', async () => {
    writeRun({ train: [], val: [] });
    expect(messageOf((await compare()).error)).toContain('has no step in common with llmc-d6-fp32-b4-t64 yet');
  });
});

describe('--json', () => {
  const parsed = (stdout: string) => JSON.parse(stdout) as Record<string, unknown>;

  it('one object on stdout and nothing else; numbers that JSON lacks are words', async () => {
    writeRun({ train: changed(reference.series.train, 3, Number.NaN) });
    const { stdout, error } = await compare('--json');
    messageOf(error);
    expect(parsed(stdout)).toMatchObject({
      reference: 'llmc-d6-fp32-b4-t64',
      inside: false,
      finalValidation: { step: 400, run: 5.8942, reference: 5.8942 },
      series: [{ series: 'train', worst: { step: 3, difference: 'Infinity' } }, {}, {}, {}],
    });
  });

  it('without a reference the own figures', async () => {
    writeRun({ val: [] }, { data: 'data/own-source' });
    expect(parsed((await compare('--json')).stdout)).toMatchObject({
      reference: null,
      series: [
        { series: 'train', steps: 400, first: 10.8719, last: 6.2431 },
        { series: 'val', steps: 0, first: null, least: null },
        {},
        {},
      ],
    });
  });
});

it('a plot that cannot be written: the figures, then one line', async () => {
  const { stdout, error } = await compare('--out', place.path('run', 'log.jsonl', 'plot.svg'));
  expect(messageOf(error)).toMatch(/cannot write the plot .*plot\.svg: .*; name another file with --out/);
  expect(stdout).toContain('inside the limits');
  expect(stdout).not.toContain('plot:');
});
