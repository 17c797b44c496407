// A tokenizer accompanies data, runs and exports: prepro, train, sample without the data, eval, export, train from the export.
import { cpSync, existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { openSafetensors, writeSafetensors } from '../../src/weights/files/safetensors.ts';
import { tinyModel, workplace } from '../support/cli.ts';
import { expectRefusal } from '../support/refusal.ts';

const place = workplace();

const run = (...args: readonly string[]) => place.okHere(args);

/** A command that is refused with exit code 1. */
const refused = async (args: string[], what: string | RegExp, where: string[]) =>
  expectRefusal(await place.here(args), { code: 1, what, where });

/** Until the test ends there is no data. */
function hideData(): void {
  renameSync(place.path('data'), place.path('hidden'));
  onTestFinished(() => renameSync(place.path('hidden'), place.path('data')));
}

const sizes = ['--seq', '64', '--batch', '2', '--val-every', '0'];
const text = Array.from({ length: 400 }, (_, index) => `ROMEO:\nIs the day young, at ${index}? Größer!\n`).join('\n');

describe('characters', () => {
  beforeAll(async () => {
    writeFileSync(place.path('play.txt'), text);
    await run('prepro', 'text', 'play.txt', '--tokenizer', 'char', '--separator', '\\n\\n', '--workers', '1');
    const args = ['train', '--data', 'data/play', ...tinyModel, ...sizes, '--steps', '6', '--out', 'run'];
    await run(...args, '--sample-every', '2', '--stop-after', '3');
    cpSync(place.path('run'), place.path('resumed'), { recursive: true });
    await run('train', '--out', 'resumed', '--resume');
    await run('export', '--model', 'resumed', '--format', 'hf', '--out', 'exported');
  });

  const sample = async (model: string, prompt = 'ROMEO:') =>
    (await run('sample', '--model', model, '--prompt', prompt, '--tokens', '30')).stdout;

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

  it('sample without the data, from a checkpoint and from the export alike', async () => {
    hideData();
    const made = await sample('resumed');
    expect(made).toMatch(/^ROMEO:/);
    expect([...made.trimEnd()].every((character) => text.includes(character))).toBe(true);
    expect(await sample('exported')).toBe(made);
  });

  it('refuse a character that the text lacks', async () => {
    const what = `the character "Ω" (U+03A9) is not among the ${new Set(text).size} of the model's vocabulary`;
    const found = await place.here(['sample', '--model', 'run', '--prompt', 'a Ω']);
    expectRefusal(found, { code: 1, what, where: ['U+03A9'], notices: 1 });
  });

  it('give nats per character and bits per byte', async () => {
    const { stdout } = await run('eval', '--model', 'exported', '--data', 'data/play', '--seq', '32', '--json');
    const { loss, bytes, tokens, bitsPerByte } = JSON.parse(stdout) as Record<string, number>;
    expect(bytes).toBeGreaterThan(tokens!);
    expect(bitsPerByte).toBeCloseTo((loss! * tokens!) / Math.LN2 / bytes!, 10);
    await place.okHere(['eval', '--model', 'run', '--seq', '32', '--json']);
  });

  it('fine-tune from the export on the same data, and refuse other data', async () => {
    const args = ['train', '--model', 'exported', ...sizes, '--device', 'cpu', '--steps', '1', '--sample-every', '0'];
    await run(...args, '--data', 'data/play', '--out', 'tuned');
    expect(existsSync(place.path('tuned/checkpoints/step-00000001/tokenizer.json'))).toBe(true);
    // As many characters, but others: the ids mean something else.
    writeFileSync(place.path('other.txt'), text.replaceAll('G', 'H'));
    await run('prepro', 'text', 'other.txt', '--tokenizer', 'char', '--separator', '\\n\\n', '--workers', '1');
    for (const model of ['exported', 'run']) {
      await refused(
        [...args.with(2, model), '--data', 'data/other', '--out', 'mixed'],
        /data\/other was made with another tokenizer \(char\) than that of (exported|run\S*);/,
        ['data/other', model, 'text FILE --tokenizer '],
      );
    }
    await run('prepro', 'text', 'play.txt', '--tokenizer', 'bytes', '--out', 'data/bytes', '--workers', '1');
    const onBytes = [...args, '--data', 'data/bytes', '--out', 'mixed'];
    const other = /data\/bytes has a vocabulary of 257 tokens \(bytes\), exported one of \d+/;
    await refused(onBytes, other, ['data/bytes', 'exported']);
    // Shards of llm.c have GPT-2's tokens and no dataset.json.
    rmSync(place.path('data/bytes/dataset.json'));
    const ofLlmc = /data\/bytes has GPT-2's tokens, exported another tokenizer \(char\)/;
    await refused(onBytes, ofLlmc, ['data/bytes', 'exported']);
  });

  it("replace no file that is no data set's", async () => {
    place.file('mine/tokenizer.json', '{}');
    const args = ['prepro', 'text', 'play.txt', '--tokenizer', 'char', '--out', 'mine', '--workers', '1'];
    await refused(args, 'belongs to no data set', ['mine/tokenizer.json']);
    expect(readFileSync(place.path('mine/tokenizer.json'), 'utf8')).toBe('{}');
  });

  it('are refused by GGUF, which cannot hold them', async () => {
    const args = ['export', '--model', 'run', '--format', 'gguf', '--out', 'run.gguf'];
    await refused(args, 'GGUF cannot hold the tokenizer of this model (char)', ['--format hf']);
    expect(existsSync(place.path('run.gguf'))).toBe(false);
  });

  it('are missed if their file is lost or changed', async () => {
    cpSync(place.path('data/play'), place.path('damaged'), { recursive: true });
    const file = place.path('damaged/tokenizer.json');
    const args = ['train', '--data', 'damaged', ...tinyModel, ...sizes, '--steps', '1', '--out', 'none'];
    writeFileSync(file, readFileSync(file, 'utf8').replace('"G"', '"H"'));
    await refused(args, 'damaged/tokenizer.json has changed', ['dataset.json']);
    rmSync(file);
    await refused(args, 'damaged/tokenizer.json cannot be used', ['ENOENT']);
    rmSync(place.path('run/checkpoints/step-00000003/tokenizer.json'));
    await refused(['sample', '--model', 'run'], 'tokenizer.json is missing', []);
  });
});

describe('a tokenizer.json', () => {
  const file = fileURLToPath(new URL('../fixtures/tokenizers/byte-level.json', import.meta.url));
  const content = readFileSync(file, 'utf8');
  const args = ['train', ...sizes, '--device', 'cpu', '--steps', '3', '--sample-every', '2'];

  beforeAll(async () => {
    writeFileSync(place.path('play.txt'), text);
    await run('prepro', 'text', 'play.txt', '--tokenizer', file, '--out', 'data/bpe', '--workers', '1');
    await run(...args, ...tinyModel.slice(0, -2), '--data', 'data/bpe', '--out', 'bpe');
    await run('export', '--model', 'bpe', '--format', 'hf', '--out', 'bpe-hf');
  });

  it('is kept with data, checkpoint and export, which sample alike without the data', async () => {
    for (const folder of ['data/bpe', 'bpe/checkpoints/step-00000003', 'bpe-hf']) {
      expect(readFileSync(place.path(folder, 'tokenizer.json'), 'utf8'), folder).toBe(content);
    }
    hideData();
    const sample = (model: string) => run('sample', '--model', model, '--prompt', 'Größe:', '--tokens', '20', '--json');
    const { stdout } = await sample('bpe');
    expect(JSON.parse(stdout)).toMatchObject({ prompt: 'Größe:', text: expect.stringMatching(/^Größe:./s) });
    expect((await sample('bpe-hf')).stdout).toBe(stdout);
    const config = JSON.parse(readFileSync(place.path('bpe-hf/tokenizer_config.json'), 'utf8')) as object;
    expect(config).toMatchObject({ eos_token: '<|endoftext|>', tokenizer_class: 'PreTrainedTokenizerFast' });
  });

  it('is that of a model folder with more rows than ids, for train, eval and export', async () => {
    // As other programs write it: with other spaces, and rows up to a multiple of 128.
    cpSync(place.path('bpe-hf'), place.path('padded'), { recursive: true });
    writeFileSync(place.path('padded/tokenizer.json'), JSON.stringify(JSON.parse(content), null, 2));
    padRows(place.path('padded'), 512);
    await run(...args, '--model', 'padded', '--data', 'data/bpe', '--out', 'tuned-bpe');
    const { stdout } = await run('eval', '--model', 'padded', '--data', 'data/bpe', '--seq', '32');
    expect(stdout).toMatch(/bits per byte/);
    await run('export', '--model', 'tuned-bpe', '--format', 'gguf', '--out', 'bpe.gguf');
    const head = readFileSync(place.path('bpe.gguf')).subarray(0, 60_000).toString('latin1');
    for (const part of ['tokenizer.ggml.merges', ' gpt2.ts', '[PAD511]']) expect(head).toContain(part);
    await refused(
      [...args, '--model', 'padded', '--data', 'data/play', '--out', 'mixed'],
      /data\/play has a vocabulary of \d+ tokens \(char\), padded one of 512/,
      ['data/play', 'padded'],
    );
  });
});

/** Adds rows of zeros to wte in a Hugging Face folder. */
function padRows(folder: string, rows: number): void {
  const path = `${folder}/model.safetensors`;
  using file = openSafetensors(path);
  const tensors = file.names.map((name) => {
    const [values, [found, ...others]] = [file.read(name), file.shape(name) as [number, ...number[]]];
    if (name !== 'wte.weight') return { name, shape: [found, ...others], read: () => values };
    const padded = new Float32Array((values.length / found) * rows);
    padded.set(values);
    return { name, shape: [rows, ...others], read: () => padded };
  });
  rmSync(path);
  writeSafetensors(path, tensors);
  const config = JSON.parse(readFileSync(`${folder}/config.json`, 'utf8')) as object;
  writeFileSync(`${folder}/config.json`, JSON.stringify({ ...config, vocab_size: rows }));
}
