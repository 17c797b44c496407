// A tokenizer accompanies data, runs and exports: prepro, train, sample without the data, eval, export, train from the export.
import { cpSync, existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { tinyModel, Workplace } from '../support/cli.ts';
import { expectRefusal } from '../support/refusal.ts';

let place: Workplace;
beforeAll(() => {
  place = new Workplace();
});
afterAll(() => place[Symbol.dispose]());

function run(...args: readonly string[]) {
  const found = place.run(args);
  expect(found.code, found.stderr).toBe(0);
  return found;
}

const sizes = ['--seq', '32', '--batch', '2', '--val-every', '0', '--threads', '1'];
const text = Array.from({ length: 400 }, (_, index) => `ROMEO:\nIs the day so young, at ${index}? Größer!\n`).join(
  '\n',
);

describe('characters', () => {
  beforeAll(() => {
    writeFileSync(place.path('play.txt'), text);
    run('prepro', 'text', 'play.txt', '--tokenizer', 'char', '--separator', '\\n\\n', '--workers', '1');
    const args = ['train', '--data', 'data/play', ...tinyModel, ...sizes, '--steps', '6', '--out', 'run'];
    run(...args, '--sample-every', '2', '--stop-after', '3');
    cpSync(place.path('run'), place.path('resumed'), { recursive: true });
    run('train', '--out', 'resumed', '--resume');
    run('export', '--model', 'resumed', '--format', 'hf', '--out', 'exported');
  });

  const sample = (model: string, prompt = 'ROMEO:') =>
    run('sample', '--model', model, '--prompt', prompt, '--tokens', '30').stdout;

  it('are the tokenizer of data, checkpoint and export, byte for byte', () => {
    const wanted = readFileSync(place.path('data/play/tokenizer.json'), 'utf8');
    const vocabulary = (JSON.parse(wanted) as { model: { vocab: Record<string, number> } }).model.vocab;
    expect(Object.keys(vocabulary).length).toBe(new Set(text).size);
    for (const folder of ['run/checkpoints/step-00000003', 'resumed/checkpoints/step-00000006', 'exported']) {
      expect(readFileSync(place.path(folder, 'tokenizer.json'), 'utf8'), folder).toBe(wanted);
    }
    const config = JSON.parse(readFileSync(place.path('exported/config.json'), 'utf8')) as object;
    expect(config).toMatchObject({ vocab_size: new Set(text).size, eos_token_id: null, bos_token_id: null });
  });

  it('sample without the data, from a checkpoint and from the export alike', () => {
    renameSync(place.path('data'), place.path('hidden'));
    try {
      const made = sample('resumed');
      expect(made).toMatch(/^ROMEO:/);
      expect([...made.trimEnd()].every((character) => text.includes(character))).toBe(true);
      expect(sample('exported')).toBe(made);
    } finally {
      renameSync(place.path('hidden'), place.path('data'));
    }
  });

  it('refuse a character that the text lacks', () => {
    const found = place.run(['sample', '--model', 'run', '--prompt', 'a Ω']);
    expectRefusal(found, {
      code: 1,
      what: `the character "Ω" (U+03A9) is not among the ${new Set(text).size} of the model's vocabulary`,
      where: ['U+03A9'],
      notices: 1,
    });
  });

  it('give nats per character and bits per byte', () => {
    const { stdout } = run('eval', '--model', 'exported', '--data', 'data/play', '--seq', '32', '--json');
    const { loss, bytes, tokens, bitsPerByte } = JSON.parse(stdout) as Record<string, number>;
    expect(bytes).toBeGreaterThan(tokens!);
    expect(bitsPerByte).toBeCloseTo((loss! * tokens!) / Math.LN2 / bytes!, 10);
    expect(place.run(['eval', '--model', 'run', '--seq', '32', '--json']).code).toBe(0);
  });

  it('fine-tune from the export on the same data, and refuse other data', () => {
    const args = ['train', '--model', 'exported', ...sizes, '--device', 'cpu', '--steps', '1', '--sample-every', '0'];
    run(...args, '--data', 'data/play', '--out', 'tuned');
    expect(existsSync(place.path('tuned/checkpoints/step-00000001/tokenizer.json'))).toBe(true);
    // As many characters, but others: the ids mean something else.
    writeFileSync(place.path('other.txt'), text.replaceAll('G', 'H'));
    run('prepro', 'text', 'other.txt', '--tokenizer', 'char', '--separator', '\\n\\n', '--workers', '1');
    for (const model of ['exported', 'run']) {
      expectRefusal(place.run([...args.with(2, model), '--data', 'data/other', '--out', 'mixed']), {
        code: 1,
        what: /data\/other was made with another tokenizer \(char\) than that of (exported|run\S*) \(char\)/,
        where: ['data/other', model],
      });
    }
    run('prepro', 'text', 'play.txt', '--tokenizer', 'bytes', '--out', 'data/bytes', '--workers', '1');
    expectRefusal(place.run([...args, '--data', 'data/bytes', '--out', 'mixed']), {
      code: 1,
      what: /data\/bytes has a vocabulary of 257 tokens \(bytes\), exported one of \d+/,
      where: ['data/bytes', 'exported'],
    });
  });

  it('are refused by GGUF, which cannot hold them', () => {
    expectRefusal(place.run(['export', '--model', 'run', '--format', 'gguf', '--out', 'run.gguf']), {
      code: 1,
      what: 'GGUF cannot hold the tokenizer of this model (char)',
      where: ['--format hf'],
    });
    expect(existsSync(place.path('run.gguf'))).toBe(false);
  });

  it('are missed if their file is lost or changed', () => {
    cpSync(place.path('data/play'), place.path('damaged'), { recursive: true });
    const file = place.path('damaged/tokenizer.json');
    const args = ['train', '--data', 'damaged', ...tinyModel, ...sizes, '--steps', '1', '--out', 'none'];
    writeFileSync(file, readFileSync(file, 'utf8').replace('"G"', '"H"'));
    expectRefusal(place.run(args), { code: 1, what: 'damaged/tokenizer.json has changed', where: ['dataset.json'] });
    rmSync(file);
    expectRefusal(place.run(args), { code: 1, what: 'damaged/tokenizer.json cannot be used', where: ['ENOENT'] });
    rmSync(place.path('run/checkpoints/step-00000003/tokenizer.json'));
    expectRefusal(place.run(['sample', '--model', 'run']), { code: 1, what: 'tokenizer.json is missing', where: [] });
  });
});
