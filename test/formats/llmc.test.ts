// llm.c's model file: every parameter lands in its place in fp32 and bf16, a shorter context takes the first positions, and
// what is damaged is refused by the name of the tensor, before any memory is taken.
import { truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { Gpt2Error, type ModelConfig, parameterTable, resolveWeights, writeCheckpoint } from '../../src/index.ts';
import { floats, held } from '../../src/ops/cases/case-numbers.ts';
import { openerOf } from '../../src/weights/formats/formats.ts';
import { emptyModel, manifestFields, temporaryFolders, trainedModel } from '../checkpoint/trained-model.ts';
import { describeBackends } from '../support/backends.ts';
import { llmcModelFile } from '../support/llmc-model.ts';
import { tinyConfig } from '../support/tiny-model.ts';

const newFolder = temporaryFolders();

describeBackends("llm.c's model file", (device) => {
  const write = (type: 'fp32' | 'bf16', change: (bytes: Buffer) => Buffer | undefined = () => undefined) => {
    const { model } = trainedModel(device());
    const bytes = llmcModelFile(tinyConfig, type, (name) => floats(model.masters.get(name)));
    const path = join(newFolder(), 'model.bin');
    writeFileSync(path, change(bytes) ?? bytes);
    return { path, model };
  };

  it.each(['fp32', 'bf16'] as const)('of %s gives back every parameter, padding rows zero', async (type) => {
    const { path, model } = write(type);
    const weights = await resolveWeights(path);
    expect(weights.model).toEqual(tinyConfig);
    const loaded = trainedModel(device(), 2).model;
    const wte = loaded.masters.get('wte');
    wte.write(new Float32Array(wte.count).fill(7));
    weights.load(loaded);
    for (const { name } of parameterTable(tinyConfig)) {
      expect(floats(loaded.masters.get(name)), name).toEqual(held(type, floats(model.masters.get(name))));
    }
  });

  it('a model with a shorter context takes its first positions, from a checkpoint as well', async () => {
    const short: ModelConfig = { ...tinyConfig, context: 20 };
    const trained = trainedModel(device());
    const checkpoint = writeCheckpoint({ folder: newFolder(), step: 1, ...trained, manifest: manifestFields });
    for (const path of [write('fp32').path, checkpoint]) {
      const { model } = emptyModel(device(), short);
      (await resolveWeights(path)).load(model);
      for (const { name } of parameterTable(short)) {
        const whole = floats(trained.model.masters.get(name));
        const wanted = name === 'wpe' ? whole.subarray(0, 20 * short.channels) : whole;
        expect(floats(model.masters.get(name)), name).toEqual(wanted);
      }
    }
    for (const context of [33, 64]) {
      const { model } = emptyModel(device(), { ...tinyConfig, context });
      const message = `is of another model: context 32 instead of ${context}`;
      for (const path of [write('fp32').path, checkpoint]) {
        await expect(resolveWeights(path).then((weights) => weights.load(model))).rejects.toThrow(message);
      }
    }
  });

  const setting = (index: number, value: number) => (bytes: Buffer) => {
    bytes.writeInt32LE(value, index * 4);
    return undefined;
  };
  const cut = (end: number) => (bytes: Buffer) => bytes.subarray(0, end);
  const filled = (text: string) => () => Buffer.alloc(2000, text);
  const isSafetensors = /model\.bin is a safetensors file without a configuration: name its folder, \//;
  const isLonger =
    /^.*: \d+ bytes follow its last tensor, lnfb; name a run, a checkpoint, .*, or llm\.c's model \.bin$/;

  it.each([
    ['another magic', setting(0, 20240520), 'it begins with 20240520, not 20240326'],
    ['an old version', setting(1, 1), 'its version is 1, not 3 (fp32) or 5 (bf16)'],
    ['no layers', setting(4, 0), 'layers takes a whole number of at least 1, not 0'],
    ['heads that do not divide', setting(5, 5), 'channels 48 are not divisible by heads 5'],
    ['a vocabulary of no token file', setting(3, 100_000), 'vocabularySize takes a whole number from 1 to 65536'],
    ['fewer rows than tokens', setting(7, 60), 'its wte has 60 rows for a vocabulary of 61'],
    ['sizes that no file has', setting(6, 2 ** 31 - 2 ** 10), /channels 2147482624 are not divisible by heads 3/],
    ['a field of a later version', setting(8, 1), 'int 8 of its header is 1, which llm.c leaves at 0'],
    ['a billion layers', setting(4, 1e9), /bytes of \d+ and ends in ln1w; copy it again/],
    ['the other type', setting(1, 5), isLonger],
    ['a byte too many', (bytes: Buffer) => Buffer.concat([bytes, Buffer.from([0])]), '1 bytes follow its last tensor'],
    ['a byte too few', cut(-1), /has \d+ bytes of \d+ and ends in lnfb; copy it again/],
    ['half of it', (bytes: Buffer) => bytes.subarray(0, bytes.length / 2), 'and ends in'],
    ['GGUF in it', filled('GGUF'), 'is a GGUF file, which cannot be read; name a run'],
    ['safetensors in it', () => Buffer.concat([Buffer.from([16, 0, 0, 0, 0, 0, 0, 0]), filled('{}')()]), isSafetensors],
    ['a PyTorch archive in it', filled('PK\x03\x04'), "save the model with transformers' save_pretrained"],
    ['no header', cut(1000), "it has 1000 bytes, less than the header's 1024"],
  ] as [string, (bytes: Buffer) => Buffer | undefined, string | RegExp][])(
    'with %s is refused',
    async (_, change, message) => {
      const { path } = write('fp32', change);
      await expect(resolveWeights(path)).rejects.toThrow(Gpt2Error);
      await expect(resolveWeights(path)).rejects.toThrow(message);
    },
  );

  it('that shrinks while it is read is refused by the name of the tensor', () => {
    const { path } = write('fp32');
    using file = openerOf(path)!();
    truncateSync(path, 2000);
    expect(() => file.read(parameterTable(tinyConfig)[0]!)).toThrow(/^wte of .* cannot be read: it ended early/);
  });
});
