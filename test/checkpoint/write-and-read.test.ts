// Writes and reads checkpoints with the same bits; refuses one of another model or with other tensors and leaves the model
// unchanged; a write that fails leaves no files.
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, vi } from 'vitest';
import { attempt, Gpt2Error, UsageError } from '../../src/base/errors.ts';
import { parameterTable, weightsHash, writeCheckpoint } from '../../src/index.ts';
import { checkConfig } from '../../src/model/config.ts';
import { floats, transposed } from '../../src/ops/cases/case-numbers.ts';
import { resolveCheckpoint, verifyCheckpoint } from '../../src/weights/checkpoint/directory.ts';
import { loadOptimizer, loadWeights, openWeights } from '../../src/weights/checkpoint/read-checkpoint.ts';
import { storedShape } from '../../src/weights/files/layout.ts';
import { openSafetensors, type TensorToWrite, writeSafetensors } from '../../src/weights/files/safetensors.ts';
import { describeBackends } from '../support/backends.ts';
import { tinyConfig } from '../support/tiny-model.ts';
import {
  contentOf,
  emptyModel,
  manifestFields,
  type Trained,
  temporaryFolders,
  trainedModel,
} from './trained-model.ts';

const newFolder = temporaryFolders();

describeBackends('a checkpoint', (device) => {
  const write = ({ model, optimizer }: Trained, folder = newFolder(), step = 20) =>
    writeCheckpoint({ folder, step, model, optimizer, manifest: manifestFields });

  it('gives back weights and optimizer state bit for bit, padding rows zero', async () => {
    const trained = trainedModel(device());
    const path = write(trained);
    expect(path).toMatch(/step-00000020$/);
    expect(readdirSync(path).sort()).toEqual(['manifest.json', 'model.safetensors', 'optimizer.safetensors']);
    const checkpoint = verifyCheckpoint(path);

    const loaded = trainedModel(device(), 2);
    const padding = loaded.model.masters.get('wte');
    padding.write(new Float32Array(padding.count).fill(7));
    loadWeights(checkpoint, loaded.model);
    loadOptimizer(checkpoint, loaded.model, loaded.optimizer);
    expect(contentOf(loaded)).toEqual(contentOf(trained));
    expect(await weightsHash(loaded.model)).toBe(await weightsHash(trained.model));
    expect(await weightsHash(loaded.model)).not.toBe(await weightsHash(trainedModel(device(), 2).model));
  });

  it('holds what a run needs to go on', () => {
    const { manifest } = verifyCheckpoint(write(trainedModel(device())));
    expect(manifest).toMatchObject({ ...manifestFields, format: 'gpt2.ts checkpoint', version: 2, step: 20 });
    expect(checkConfig(manifest.model)).toEqual(tinyConfig);
    expect(Date.parse(manifest.time)).toBeGreaterThan(0);
  });

  it("has Hugging Face's names and shapes, linear weights as [in, out], and no padding rows", () => {
    const { model, optimizer: state } = trainedModel(device());
    const path = write({ model, optimizer: state });
    using file = openSafetensors(join(path, 'model.safetensors'));
    const { channels: C, context, vocabularySize } = tinyConfig;
    expect(file.names.length).toBe(2 + 12 * tinyConfig.layers + 2);
    expect(file.shape('wte.weight')).toEqual([vocabularySize, C]);
    expect(file.shape('wpe.weight')).toEqual([context, C]);
    expect(file.shape('h.1.attn.c_attn.weight')).toEqual([C, 3 * C]);
    expect(file.shape('h.1.mlp.c_proj.weight')).toEqual([4 * C, C]);
    expect(file.shape('ln_f.bias')).toEqual([C]);
    const ours = floats(model.masters.get('h.1.fcw'));
    expect(Float64Array.from(file.read('h.1.mlp.c_fc.weight'))).toEqual(transposed(ours, 4 * C, C));
    using optimizer = openSafetensors(join(path, 'optimizer.safetensors'));
    expect(optimizer.names).toEqual(['m.', 'v.'].flatMap((prefix) => file.names.map((name) => prefix + name)));
    expect(optimizer.shape('v.h.0.mlp.c_fc.weight')).toEqual([C, 4 * C]);
  });

  it('of another model is refused with every field that differs, the model untouched', () => {
    const path = write(trainedModel(device()));
    const other = trainedModel(device(), 3, { ...tinyConfig, layers: 3, context: 64 });
    const before = contentOf(other);
    const message = 'is of another model: layers 2 instead of 3, context 32 instead of 64';
    const checkpoint = verifyCheckpoint(path);
    expect(() => loadWeights(checkpoint, other.model)).toThrow(message);
    expect(() => loadOptimizer(checkpoint, other.model, other.optimizer)).toThrow(message);
    expect(contentOf(other)).toEqual(before);
  });

  it('takes no optimizer state of another model, which has the same sizes', () => {
    const [trained, other] = [trainedModel(device()), trainedModel(device(), 2)];
    const folder = newFolder();
    const refusal = 'the optimizer state is not of this model';
    const [m] = trained.optimizer;
    const wrong = [other.optimizer, [{}] as never, other.optimizer[0] as never, [m!], [m!, m!], [m!, m!, m!]];
    for (const optimizer of wrong) {
      expect(() => write({ model: trained.model, optimizer }, folder)).toThrow(refusal);
      expect(readdirSync(folder)).toEqual([]);
    }
    const found = verifyCheckpoint(write(trained, folder));
    expect(() => loadOptimizer(found, trained.model, other.optimizer)).toThrow(refusal);
  });

  it('with tensors missing, too many or of another shape is refused by their names, the model untouched', async () => {
    const path = write(trainedModel(device()));
    const tensors: TensorToWrite[] = parameterTable(tinyConfig).map((parameter) => {
      const name = parameter.huggingFaceName;
      const shape = storedShape(parameter);
      if (name === 'h.0.ln_1.bias') return { name: 'lm_head.weight', shape: [1], read: () => new Float32Array(1) };
      if (name === 'h.1.attn.c_attn.weight') shape.reverse();
      return { name, shape, read: () => new Float32Array(shape.reduce((product, size) => product * size, 1)) };
    });
    const file = join(path, 'model.safetensors');
    rmSync(file);
    writeSafetensors(file, tensors);
    const manifest = JSON.parse(readFileSync(join(path, 'manifest.json'), 'utf8'));
    const { model } = trainedModel(device(), 2);
    const before = await weightsHash(model);
    const message =
      `${file} does not fit the model: it lacks h.0.ln_1.bias; it also has lm_head.weight; ` +
      'h.1.attn.c_attn.weight is [144,48], not [48,144]';
    expect(() => loadWeights({ path, manifest }, model)).toThrow(message);
    expect(() => openWeights(path, manifest.model)).toThrow(message);
    expect(await weightsHash(model)).toBe(before);
  });

  it('replaces one of the same step, whole or damaged', async () => {
    const folder = newFolder();
    const path = write(trainedModel(device()), folder);
    writeFileSync(join(path, 'model.safetensors'), 'damaged');
    const second = trainedModel(device(), 2);
    expect(write(second, folder)).toBe(path);
    expect(write(second, folder)).toBe(path);
    expect(readdirSync(folder)).toEqual(['step-00000020']);
    const loaded = emptyModel(device());
    loadWeights(verifyCheckpoint(path), loaded.model);
    expect(await weightsHash(loaded.model)).toBe(await weightsHash(second.model));
  });

  it('that fails while it is written leaves nothing, and keeps the older ones', () => {
    const folder = newFolder();
    const trained = trainedModel(device());
    const older = write(trained, folder, 10);
    const failing = (error: Error): Trained => {
      vi.spyOn(trained.optimizer[0]!.copy, 'read').mockImplementation(() => {
        throw error;
      });
      return trained;
    };
    const full = Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' });
    expect(() => write(failing(full), folder)).toThrow(Gpt2Error);
    expect(() => write(failing(full), folder)).toThrow(/step-00000020: ENOSPC: no space left on device.*; make room/);
    // A defect is not dressed up as trouble with the disk.
    expect(() => write(failing(new TypeError('a defect')), folder)).toThrow(TypeError);
    expect(readdirSync(folder)).toEqual(['step-00000010']);
    expect(resolveCheckpoint(folder).path).toBe(older);
  });

  it('that could not be read back is refused before anything is written', () => {
    const [folder, trained] = [newFolder(), trainedModel(device())];
    const wrong: [object, string][] = [
      [{ position: undefined }, 'position'],
      [{ logBytes: -1 }, 'logBytes'],
      [{ program: 5 }, 'program'],
      [{ timed: 'yes' }, 'timed'],
      [{ shards: [{ name: 'x', tokens: 2 ** 31 }] }, 'shards[0].tokens'],
      [{ configuration: { note: 'x'.repeat(1 << 24) } }, 'the manifest has 16777'],
    ];
    for (const [fields, message] of wrong) {
      const manifest = { ...manifestFields, ...fields };
      const refusal = attempt(() => writeCheckpoint({ folder, step: 20, ...trained, manifest }));
      expect(refusal).toBeInstanceOf(UsageError);
      expect((refusal as Error).message).toContain(message);
    }
    expect(readdirSync(folder)).toEqual([]);
  });

  it('has its own step where the manifest is that of another', () => {
    const [folder, trained] = [newFolder(), trainedModel(device())];
    const { manifest } = verifyCheckpoint(write(trained, folder, 10));
    writeCheckpoint({ folder, step: 20, ...trained, manifest });
    expect(resolveCheckpoint(folder).manifest).toMatchObject({ ...manifestFields, step: 20 });
  });

  it('whose folder cannot be made says where', () => {
    const blocked = join(newFolder(), 'file');
    writeFileSync(blocked, '');
    expect(() => write(trainedModel(device()), join(blocked, 'checkpoints'))).toThrow(
      /^cannot write the checkpoint .*file\/checkpoints\/step-00000020: .*; make room or write to another folder/,
    );
  });
});
