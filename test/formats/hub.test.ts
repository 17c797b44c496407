// Models of the Hugging Face hub by name: downloaded once, checked, kept by commit, used without the network, and refused in one
// sentence where they cannot be read.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { Gpt2Error, InterruptedError, planRun, resolveWeights, train, UsageError } from '../../src/index.ts';
import { parseHubName } from '../../src/weights/formats/hub.ts';
import { commit, files, hub, hubOfEach, made, repository } from './hub-server.ts';

const place = hubOfEach();
let notices: string[];
const options = { notice: (text: string) => void notices.push(text) };
beforeEach(() => {
  notices = [];
});

const folderOf = (name: string) => place.path('cache', 'gpt2.ts', 'models', repository, name);
describe('a model by name', () => {
  it.each(['', '/tree/main'])('or by its address on the hub%s', async (rest) => {
    expect((await resolveWeights(`${hub.url}/${repository}${rest}`, options)).hubName).toBe(`${repository}@${commit}`);
  });

  it('is downloaded once, and needs no network again', async () => {
    await resolveWeights(repository, options);
    expect(notices).toEqual([`downloading ${repository}@${commit} to ${folderOf(commit)}`]);
    const tokenizer = ['special_tokens_map.json', 'tokenizer.json', 'tokenizer_config.json', 'vocab.json'];
    const kept = ['config.json', 'merges.txt', 'model.safetensors', ...tokenizer];
    expect(readdirSync(folderOf(commit)).sort()).toEqual(kept);
    for (const name of kept) expect(readFileSync(join(folderOf(commit), name)).equals(files[name]!), name).toBe(true);
    expect(hub.downloads).toHaveLength(1);
    const asked = hub.requests.length;
    await resolveWeights(repository, options);
    // It asks for the newest commit, and for nothing else.
    expect(hub.requests.slice(asked).map(({ method }) => method)).toEqual(['HEAD']);
    await hub.close();
    const weights = await resolveWeights(repository, options);
    expect(weights).toMatchObject({ path: folderOf(commit), hubName: `${repository}@${commit}` });
    expect(notices.at(-1)).toMatch(
      new RegExp(`^cannot ask ${hub.url}/${repository} for new commits \\(.+\\): using ${commit}, downloaded before$`),
    );
    notices = [];
    await resolveWeights(`${repository}@${commit}`, options);
    expect(notices).toEqual([]);
  });

  it('is the newest of its branch, or the commit that is asked for', async () => {
    await resolveWeights(repository, options);
    const next = hub.commit(repository, { ...files, 'merges.txt': Buffer.from('another') });
    expect((await resolveWeights(`${repository}@${commit}`, options)).path).toBe(folderOf(commit));
    expect((await resolveWeights(repository, options)).path).toBe(folderOf(next));
    expect((await resolveWeights(`${repository}@main`, options)).path).toBe(folderOf(next));
    hub.repositories.get(repository)!.revisions.set('refs/pr/1', commit);
    expect((await resolveWeights(`${repository}@refs/pr/1`, options)).path).toBe(folderOf(commit));
  });

  it('is found by its former name, and where small files are sent at once', async () => {
    hub.renamed.set('former/name', repository);
    hub.sendsAtOnce = true;
    expect((await resolveWeights('former/name', options)).hubName).toBe(`former/name@${commit}`);
  });

  it('of a private repository is read with HF_TOKEN, which the storage is not shown', async () => {
    hub.commit('someone/private', files, 'private');
    vi.stubEnv('HF_TOKEN', `${hub.token}\n`);
    await resolveWeights('someone/private', options);
    expect(new Set(hub.requests.map(({ authorization }) => authorization))).toEqual(new Set([`Bearer ${hub.token}`]));
    expect(hub.downloads).toHaveLength(1);
    expect(hub.storage.requests.every(({ authorization }) => authorization === undefined)).toBe(true);
  });
});

it('of several downloads at once the others wait for the first', async () => {
  const all = await Promise.all([1, 2, 3].map(() => resolveWeights(repository, options)));
  expect(new Set(all.map(({ path }) => path)).size).toBe(1);
  expect(hub.downloads).toHaveLength(1);
  expect(
    notices.filter((text) => text === `waiting for another process that downloads to ${folderOf(commit)}`),
  ).toHaveLength(2);
});

describe('an interrupted download', () => {
  const ranges = () => hub.storage.requests.filter(({ method }) => method === 'GET').map(({ range }) => range);

  it('resumes by itself', async () => {
    hub.storage.breakAfter = 3_000_000;
    await resolveWeights(repository, options);
    expect(ranges()).toEqual([undefined, expect.stringMatching(/^bytes=[1-9]\d+-$/), ...ranges().slice(2)]);
    expect(readFileSync(join(folderOf(commit), 'model.safetensors')).equals(files['model.safetensors']!)).toBe(true);
  });

  it('resumes when it is started again', async () => {
    const controller = new AbortController();
    const onProgress = (done: number) => {
      if (done > 1_000_000) controller.abort(143);
    };
    const { signal } = controller;
    await expect(resolveWeights(repository, { onProgress, signal })).rejects.toThrow(InterruptedError);
    const given = { model: repository, data: made.path('data'), device: 'cpu', steps: 1, out: place.path('run') };
    await expect(train(given, { signal })).rejects.toMatchObject({ name: 'StoppedError', exitCode: 143 });
    expect(existsSync(place.path('run'))).toBe(false);
    await resolveWeights(repository, options);
    expect(ranges()).toEqual([undefined, expect.stringMatching(/^bytes=[1-9]\d{6,}-$/)]);
    expect(readFileSync(join(folderOf(commit), 'model.safetensors')).equals(files['model.safetensors']!)).toBe(true);
  });
});

describe('is refused in one sentence:', () => {
  /** The message for a model, without the address of the hub. */
  const refusal = async (model: string): Promise<string> => {
    const error = await resolveWeights(model, options).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(Gpt2Error);
    return (error as Gpt2Error).message.replaceAll(hub.url, 'HUB');
  };
  const config = (change: object): Buffer =>
    Buffer.from(JSON.stringify({ ...JSON.parse(files['config.json']!.toString()), ...change }));

  it.each([
    ['weights', 'model.safetensors', 'sha256', 64],
    ['a small file', 'vocab.json', 'git blob sha1', 40],
  ])('%s with another hash', async (_, file, kind, digits) => {
    hub.hashes[file] = '0'.repeat(digits);
    expect(await refusal(repository)).toMatch(
      new RegExp(
        `^the download of HUB/.*/${file.replace('.', '[.]')} has ${kind} \\w{${digits}}, not 0{${digits}}; it was deleted: run this again$`,
      ),
    );
    expect(readdirSync(folderOf(commit)).filter((name) => name.startsWith(file))).toEqual([]);
    delete hub.hashes[file];
    await resolveWeights(repository, options);
  });

  it('a small file over 64 MiB', async () => {
    const large = hub.commit(repository, { ...files, 'vocab.json': Buffer.alloc((64 << 20) + 1, 32) });
    expect(await refusal(repository)).toMatch(
      /^the download of HUB\/.*\/vocab\.json has 67108865 bytes, over the limit of 67108864 for this file; give a local model with --model$/,
    );
    expect(readdirSync(folderOf(large)).filter((name) => name.startsWith('vocab'))).toEqual([]);
  });

  it.each([
    ['config.json', '{"model_type":'],
    ['tokenizer.json', '{"model":{'],
    ['model.safetensors', 'torn'],
  ])('a damaged %s without a checksum, which is to be removed', async (file, content) => {
    hub.hashes[file] = 'none';
    const damaged = hub.commit(repository, { ...files, [file]: Buffer.from(content) });
    const wanted = `; remove ${join(folderOf(damaged), file)} and run this again, which downloads it`;
    expect((await refusal(repository)).endsWith(wanted)).toBe(true);
    expect((await refusal(`${repository}@${damaged}`)).endsWith(wanted)).toBe(true);
  });

  it('a token that no header can hold, without printing it', async () => {
    vi.stubEnv('HF_TOKEN', 'hf_secret\nsecond');
    const message = await refusal(repository);
    vi.stubEnv('HF_TOKEN', '');
    expect(message).toMatch(/^HF_TOKEN is no token/);
    expect(message).not.toContain('hf_secret');
  });

  it('another model, before its weights are downloaded', async () => {
    const bert = hub.commit('someone/bert', { ...files, 'config.json': config({ model_type: 'bert' }) });
    expect(await refusal('someone/bert')).toBe(
      `someone/bert@${bert} is not a GPT-2 that can be read: model_type of its config.json: it is "bert", not "gpt2"`,
    );
    const { 'tokenizer.json': _, 'merges.txt': __, ...rest } = files;
    const other = hub.commit('someone/other', { ...rest, 'vocab.json': Buffer.from('{"a":0}') });
    expect(await refusal('someone/other')).toContain(
      `someone/other@${other} is not a GPT-2 that can be read: its vocab.json`,
    );
    expect(hub.downloads).toEqual([]);
  });

  it.each<[what: string, file: string | undefined, found: string]>([
    ['many files', 'model.safetensors.index.json', 'has its weights in several files (model.safetensors.index.json)'],
    ['weights of PyTorch', 'pytorch_model.bin', 'has its weights only in pytorch_model.bin'],
    ['no weights', undefined, 'has no model.safetensors'],
  ])('%s', async (_, file, found) => {
    const { 'model.safetensors': weights, ...rest } = files;
    const other = hub.commit('someone/other', file ? { ...rest, [file]: weights! } : rest);
    expect(await refusal('someone/other')).toBe(
      `someone/other@${other} ${found}, and weights are read from one model.safetensors: write one with transformers' save_pretrained(FOLDER, max_shard_size='100GB'), and give its folder with --model`,
    );
  });

  it('no such repository, revision or file; private and gated ones', async () => {
    hub.commit('someone/private', files, 'private');
    hub.commit('someone/gated', files, 'gated');
    hub.commit('someone/data', { 'README.md': Buffer.from('data') });
    const absent = (name: string) =>
      `${name} is no path here, and there is no public model HUB/${name}: check the name, or set HF_TOKEN if it is private`;
    const gated =
      'someone/gated is gated: accept its conditions at HUB/someone/gated, and set HF_TOKEN to a token of that account';
    expect(await refusal('nobody/nothing')).toBe(absent('nobody/nothing'));
    expect(await refusal('someone/private')).toBe(absent('someone/private'));
    expect(await refusal('someone/gated')).toBe(gated);
    const revision = `HUB/${repository} has no revision v9: name one of its branches, tags or commits`;
    expect(await refusal(`${repository}@v9`)).toBe(revision);
    expect(await refusal(`${repository}@${'1'.repeat(40)}`)).toBe(revision.replace('v9', '1'.repeat(40)));
    expect(await refusal('someone/data')).toBe('HUB/someone/data has no config.json: name the repository of a GPT-2');
    vi.stubEnv('HF_TOKEN', 'hf_other');
    expect(await refusal('someone/gated')).toBe(gated);
    expect(await refusal('someone/private')).toBe(
      'someone/private is no path here, and HF_TOKEN has access to no model HUB/someone/private: check the name and the token',
    );
  });

  it('a hub that cannot answer, and a server that is no hub', async () => {
    hub.refusal = 503;
    expect(await refusal(repository)).toMatch(
      /^someone\/tiny-gpt2 is no path here, and cannot be downloaded from HUB\/someone\/tiny-gpt2: the server answered 503; check the network/,
    );
    hub.refusal = 403;
    expect(await refusal(repository)).toBe(
      `HUB/${repository} may not be read (403): set HF_TOKEN to a token that has access to it`,
    );
    hub.refusal = 200;
    expect(await refusal(repository)).toMatch(
      /cannot be downloaded from .*: the answer has no X-Repo-Commit, so it is not from a Hugging Face hub; check/,
    );
    await hub.close();
    const begun = performance.now();
    expect(await refusal(repository)).toMatch(
      /^someone\/tiny-gpt2 is no path here, and cannot be downloaded from HUB\/someone\/tiny-gpt2: .*ECONNREFUSED.*; check the network, or give a local model with --model$/,
    );
    expect(performance.now() - begun).toBeLessThan(10_000);
  });

  it('a cache that cannot be written', async () => {
    place.file('file', '');
    vi.stubEnv('XDG_CACHE_HOME', place.path('file'));
    expect(await refusal(repository)).toMatch(
      /^the cache folder .* cannot be written: .*; name another cache in XDG_CACHE_HOME$/,
    );
  });
});

it.each([
  ['gpt2', 'the pretrained GPT-2 of this size is --model openai-community/gpt2'],
  ['d24', 'the pretrained GPT-2 of this size is --model openai-community/gpt2-medium'],
  ['d6', 'name a trained model'],
])('%s is a size of new models, which has no weights', async (model, advice) => {
  await expect(resolveWeights(model)).rejects.toThrow(
    new UsageError(`--model ${model} is a size of new models and has no weights; ${advice}`),
  );
});

it('a new model of the size that is also the name of a pretrained one is told apart', async () => {
  const planned = async (model: string) => {
    notices = [];
    await planRun({ model, data: made.path('data'), for: 'h100', batch: 1, sequence: 16 }, options.notice);
    return notices;
  };
  expect(await planned('gpt2')).toEqual([
    '--model gpt2 is a new model of that size; the pretrained one is --model openai-community/gpt2',
  ]);
  expect(await planned('d12')).toEqual([]);
});

it('names have one slash', () => {
  expect(parseHubName('a/b.c-d_e')).toEqual({ repository: 'a/b.c-d_e', revision: undefined });
  const host = 'https://huggingface.co/openai-community/gpt2';
  const page = { repository: 'openai-community/gpt2', revision: undefined };
  const short = [host.slice(8), host.replace('huggingface', 'hf')];
  for (const address of [host, `${host}/`, `${host}?library=transformers`, ...short]) {
    expect(parseHubName(address), address).toEqual(page);
  }
  for (const address of [`${host}/tree/main`, `${host}/tree/main/onnx`, `${host}/blob/main/config.json`]) {
    expect(parseHubName(address), address).toEqual({ ...page, revision: 'main' });
  }
  expect(parseHubName(`${host}/tree/refs%2Fpr%2F1`)).toEqual({ ...page, revision: 'refs/pr/1' });
  expect(parseHubName('https://huggingface.co/datasets/a/b')).toBeUndefined();
  expect(parseHubName('https://github.com/a/b')).toBeUndefined();
  expect(parseHubName('a/b@refs/pr/1')).toEqual({ repository: 'a/b', revision: 'refs/pr/1' });
  for (const path of ['gpt2', './a', '../a', '/a/b', 'a/', 'a/b/c', 'a/../b', '~/a', 'C:\\a', 'a/b@', '']) {
    expect(parseHubName(path), path).toBeUndefined();
  }
});
