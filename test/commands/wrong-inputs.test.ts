// Wrong inputs of every command, as a user types them: each is answered in one line with what, where and what to do, and
// leaves nothing behind. What takes several steps to go wrong is in bad-input.test.ts.
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { beforeAll, describe, expect, it } from 'vitest';
import { tinyModel, workplace } from '../support/cli.ts';
import { expectRefusal, type Refusal } from '../support/refusal.ts';

const place = workplace();
let before: string[];
const everything = () => readdirSync(place.folder, { recursive: true, encoding: 'utf8' }).sort();

beforeAll(() => {
  place.data();
  place.data({ name: 'small', vocabulary: 100 });
  place.data({ name: 'short', train: 200 });
  place.data({ name: 'data/inside' });
  const options = '--order llmc --steps 1 --lr 6e-4 --weight-decay 0.1 --seq 32 --val-every 0 --sample-every 0'.split(
    ' ',
  );
  place.ok(['train', '--data', 'data', '--out', 'run', ...tinyModel, ...options]);
  mkdirSync(place.path('empty'));
  mkdirSync(place.path('sets', 'inside'), { recursive: true });
  mkdirSync(place.path('sets', 'tinyshakespeare'), { recursive: true });
  const files: Record<string, string | Uint8Array> = {
    'sets/tinyshakespeare/input.txt': 'another text',
    'notes.txt': 'a few words',
    'a text.txt': 'a few words',
    'notes.bin': 'notes',
    'blank.txt': ' \n\t',
    'latin1.txt': Buffer.from('abc é', 'latin1'),
    'lines.jsonl': '{"other": "a"}\n',
    'broken.jsonl': '{"text": "a"\n',
    'not.gz': 'plain',
    'no-table.parquet': 'plain',
    'plain.parquet': 'plain',
    file: '',
    'options.json': '{"bach": 2}',
    'elsewhere.json': '{"max_steps": 2}',
    'wrong.json': '{"batch": "x"}',
    'long.json': '{"preset": "gpt2-124m-fineweb", "batch": 5, "sequence": 60}',
    'lr-first.json': '{"lr": 1, "learningRate": 2}',
    'twice.json': '{"learningRate": 1, "lr": 2}',
    'array.json': '[]',
    'torn.json': '{',
  };
  for (const [name, content] of Object.entries(files)) writeFileSync(place.path(name), content);
  before = everything();
});

const cpu = ['--device', 'cpu'];
const train = (...args: string[]) => ['train', '--data', 'data', '--out', 'new', '--steps', '1', ...tinyModel, ...args];
const text = (...args: string[]) => ['prepro', 'text', ...args, '--workers', '1'];

/** Code, arguments, what it says is wrong, what it has to name. */
type Row = [code: 1 | 2, args: string[], what: string | RegExp, where: string[], more?: { notices: number }];

const rows: Record<string, Row[]> = {
  gpt2: [
    [2, ['trian'], "unknown command 'trian'", ['Did you mean train?', '--help']],
    [2, ['--versio'], "unknown option '--versio'", ['--help']],
  ],
  train: [
    ...Object.entries({
      '--learning-rate': '--lr',
      '--max-steps': '--steps',
      '--max-iters': '--steps',
      '--epochs': '--steps, optimizer steps; the schedule spans them (default: one epoch)',
      '--batch-size': '--batch',
      '--batch_size': '--batch',
      '--batchsize=4': '--batch',
      '--block-size': '--seq',
      '--init-from': '--model',
    }).map(([typed, meant]): Row => [2, train(typed, '4'), `unknown option '${typed}'`, [`: here it is ${meant}`]]),
    [2, train('--lora', '4'), "unknown option '--lora'", ['LoRA is not supported', 'train --help']],
    [2, train('--step', '4'), "unknown option '--step'", ['did you mean --steps?']],
    [2, train('--init_from=resume'), "unknown option '--init_from=resume'", ['here it is --resume']],
    [
      2,
      train('--compile=False', '--eval_interval=20', '--seed=1', '--lr_decay_iters', '9', '--stpes=2', '--zzz'),
      'unknown options: --compile=False: the kernels are compiled already; --eval_interval=20: here it is --val-every; ',
      [
        '--lr_decay_iters: with --schedule cosine the rate falls over all steps; --stpes=2: did you mean --steps?; --zzz: there is none like it',
      ],
    ],
    [2, train('surplus'), /too many arguments for 'train': "surplus"/, ['every value needs its flag', 'train --help']],
    [2, train('data'), /too many arguments for 'train': "data"/, ['as --model data', 'train --help']],
    [2, train('--lr'), /option '--lr <X>' argument missing/, ['train --help']],
    [2, train('--lr', 'abc'), 'not "abc"', ['--lr takes a number of at least 0']],
    [2, train('--lr', '-1'), 'not "-1"', ['--lr takes a number of at least 0']],
    [2, train('--batch', '0'), 'not "0"', ['--batch takes a whole number from 1 to 65536 or auto']],
    [2, train('--batch', '2.5'), 'not "2.5"', ['--batch']],
    [2, train('--batch', '0x10'), 'not "0x10"', ['--batch']],
    [2, train('--seed', '4294967296'), 'not "4294967296"', ['--seed takes a whole number from 0 to 4294967295']],
    [
      2,
      train('--schedule', 'cosin'),
      'not "cosin"',
      ['--schedule takes one of cosine, linear, constant, wsd, trapezoid'],
    ],
    [2, train('--lr', '1e40'), 'not "1e40"', ['--lr takes a number from 0 to 3.4028234663852886e+38']],
    [2, train('--dtype', 'fp16'), 'not "fp16"', ['--dtype takes one of fp32, tf32, bf16, fp8']],
    [2, train('--device', 'tpu'), 'not "tpu"', ['--device takes auto, cpu, cuda or cuda:N']],
    [2, train('--seq', '65'), "--seq 65 is over the model's context of 64 positions", ['--seq']],
    [2, ['train', '--model', 'd6', '--seq', '1025'], "--seq 1025 is over the model's context of 1024", ['--seq']],
    [2, train('--total-batch', '300'), 'is not a multiple of', ['--total-batch 300', '--batch 4', '--seq 64']],
    [2, train('--heads', '3'), 'channels 32 are not divisible by heads 3', ['--heads', '--channels']],
    [2, train('--warmup', '5'), '--warmup 5 is over --steps 1', ['--warmup']],
    [2, train('--model', 'd7'), 'd7 does not exist', ['--model takes d6']],
    [2, ['train', '--model', 'custom', '--layers', '2'], '--model custom needs --layers', ['--channels', '--heads']],
    [2, train('--resume', '--overwrite'), 'exclude each other', ['--resume', '--overwrite']],
    [
      2,
      ['train', '--resume', 'runs/x'],
      'no value, not "runs/x"',
      ['continue a run there, give --out runs/x --resume'],
    ],
    [2, ['train', '--resume'], '--resume needs --out', ['the folder of the run to continue']],
    [2, train('--keep-every', '2'), '--keep-every goes with --keep', ['give both']],
    [2, train('--hellaswag', 'none.bin'), '--hellaswag goes with --hellaswag-every', ['give both']],
    [2, train('--serve-host', '0.0.0.0'), '--serve-host goes with --serve', ['--serve']],
    [2, train('--config', 'options.json'), 'there is no option "bach"', ['options.json']],
    [
      2,
      train('--config', 'elsewhere.json'),
      'there is no option "max_steps"',
      ['elsewhere.json', 'did you mean "steps"?'],
    ],
    [2, train('--config', 'twice.json'), 'gives "learningRate" twice', ['twice.json', 'as "learningRate" and as "lr"']],
    [2, train('--config', 'lr-first.json'), 'twice, as "lr" and as "learningRate"', ['lr-first.json', 'remove one']],
    [2, train('--config', 'wrong.json'), 'not "x"', ['wrong.json: --batch takes']],
    ...[[], ['--dry-run'], ['--sweep', 'seed=1,2']].map((more): Row => {
      const args = ['--preset', 'shakespeare-laptop', '--data', 'data', '--steps', '20', ...more];
      return [
        2,
        ['train', ...args],
        '--warmup 100 is over --steps 20',
        ['take a shorter --warmup (from --preset shakespeare-laptop: --warmup 100)'],
      ];
    }),
    [
      2,
      train('--config', 'long.json'),
      'is not a multiple of',
      ['(from --config long.json: --batch 5, --seq 60; from --preset gpt2-124m-fineweb: --total-batch 524288)'],
    ],
    [1, train('--config', 'empty'), 'cannot be read: ENOENT', ['empty/config.json']],
    [1, train('--config', 'torn.json'), 'cannot be read', ['torn.json', '--config']],
    [1, train('--config', 'array.json'), 'must hold one JSON object', ['array.json', 'config.json']],
    [1, train('--config', 'none.json'), 'ENOENT: no such file or directory; ', ['none.json', '--config']],
    [
      1,
      train('--data', 'none'),
      'none does not exist',
      ['--data, such as data, short, small and 1 more, or make it', 'text FILE --out none'],
    ],
    [1, train('--data', 'smal'), 'smal does not exist', ['did you mean small?']],
    [1, train('--data', 'inside'), 'inside does not exist', ['did you mean data/inside?']],
    [1, ['train'], 'there is no data in data/tinyshakespeare', ['prepro tinyshakespeare', '--data']],
    [1, train('--data', 'data/own-source/'), 'there is no data in data/own-source/', ['prepro own-source']],
    [1, train('--data', 'empty'), 'empty has no train shard', ['prepro']],
    [1, train('--data', 'sets/inside/'), 'sets/inside/ has no train shard', ['did you mean data/inside?']],
    [1, train('--data', 'notes.bin'), 'cannot be read as a folder', ['notes.bin', '--data']],
    [
      1,
      train('--data', 'short', '--order', 'llmc'),
      'too few for 4 sequences of 64',
      ['random_train.bin', 'largest --batch that fits is 3'],
    ],
    [1, train('--out', 'file'), 'file is not a folder', ['--out']],
    [1, train('--out', 'data'), 'data holds inside, random_train.bin, random_val.bin, which no run wrote', ['--out']],
    [1, train('--out', '.'), '. is a folder of runs', ['name one with --out, such as run, or a new one in it']],
    [1, ['train', '--out', '.', '--resume'], '. is a folder of runs', ['name one with --out, such as run,']],
    [1, train('--out', '/proc/x'), 'cannot write the run folder', ['/proc/x', '--out']],
    [1, train('--out', 'file/run'), 'cannot write the run folder', ['file/run', '--out']],
    [1, train('--out', 'run'), 'run already holds a run', ['--resume', '--overwrite', '--out']],
    [1, train('--model', 'empty'), 'neither a checkpoint nor a run', ['empty']],
    [1, train('--model', 'notes.bin'), 'is not a model file of llm.c', ['notes.bin']],
    [1, train('--model', 'run', '--layers', '2'), 'is of another model: layers 1 instead of 2', ['run/checkpoints']],
    [1, ['train', '--out', 'none', '--resume'], 'there is no run to resume in none', ['--resume']],
    [
      1,
      ['train', '--out', 'run', '--resume', '--layers', '2'],
      'it was trained with 1',
      ['cannot resume run', '--layers 2'],
    ],
    [1, train('--dtype', 'bf16'), /^the CPU library has no bf16, only fp32(?!.*GPT2_)/, ['dtype']],
    [
      1,
      train('--hellaswag-every', '1', '--hellaswag', 'none.bin'),
      'there are no questions in none.bin',
      ['--hellaswag'],
    ],
    [
      1,
      train('--batch', '64', '--seq', '64', '--max-memory', '0.1', '--model', 'd12'),
      /needs \d.* GiB/,
      ['--batch 64', '--max-memory 0.1', '--seq'],
    ],
  ],
  prepro: [
    [2, ['prepro'], 'no data set was named', ['tinyshakespeare, own-source, hellaswag, text']],
    [2, ['prepro', 'tinyshakespear'], 'no data set "tinyshakespear"', ['did you mean tinyshakespeare?']],
    [2, ['prepro', 'shakespeare_char'], 'no data set', ['did you mean tinyshakespeare --tokenizer char?']],
    [2, ['prepro', 'empty'], 'there is no data set "empty"', ['prepro text empty`, or name one of tinyshakespeare']],
    [2, ['prepro', 'a text.txt'], 'there is no data set "a text.txt"', ["prepro text 'a text.txt'`"]],
    [2, ['prepro', 'wikitext'], 'there is no data set "wikitext"', ['name one of tinyshakespeare, own-source']],
    [
      2,
      ['prepro', 'own-source', '--from', 'notes.txt'],
      'own-source takes no --from',
      ['its files come with the package'],
    ],
    [1, ['prepro', 'tinyshakespeare', '--from', 'none.txt'], 'none.txt cannot be read', ['--from']],
    [1, ['prepro', 'tinyshakespeare', '--from', 'blank.txt'], 'blank.txt is empty', ['--from']],
    [1, ['prepro', 'tinyshakespeare', '--from', 'notes.txt'], 'is too short', ['notes.txt', '--from'], { notices: 1 }],
    [1, ['prepro', 'own-source', '--out', 'file/x'], 'cannot write to file/x', ['--out']],
    [1, ['prepro', 'tinyshakespeare'], /has sha256 [0-9a-f]{64}, not/, ['tinyshakespeare/input.txt', '--from']],
    [1, ['prepro', 'hellaswag'], 'GPT2_DATASETS has no hellaswag', ['hellaswag_val.jsonl', '--from']],
    [1, ['prepro', 'hellaswag', '--from', 'none'], 'the questions none cannot be read', ['--from']],
    [
      1,
      ['prepro', 'hellaswag', '--from', 'lines.jsonl'],
      /not a question .* at ctx/,
      ['line 1 of lines.jsonl', '--from'],
    ],
    [2, ['prepro', 'text'], "missing required argument 'FILE'", ['prepro text --help']],
    [2, text('notes.txt', '--val-fraction', '2'), 'not "2"', ['--val-fraction takes']],
    [2, text('notes.txt', '--tokenizer', 'gpt4'), 'not "gpt4"', ['--tokenizer takes gpt2, bytes']],
    [1, text('notes.txt', '--tokenizer', './none.json'), './none.json does not exist', ['--tokenizer']],
    [2, text('notes.txt', '--separator', ''), 'a file is a document', ['--separator takes a text']],
    [2, text('notes.txt', '--field', 'a', '--separator', 'b'), 'exclude each other', ['--field', '--separator']],
    [1, text('none.txt'), 'cannot be read: it does not exist', ['none.txt']],
    [1, text('empty'), 'empty has no text file', ['name files']],
    [1, text('blank.txt'), 'the given files contain no text', ['name files']],
    [1, text('notes.txt'), 'too short to be divided', ['--separator']],
    [1, text('latin1.txt'), 'is not UTF-8 at byte 4 (0xe9)', ['latin1.txt', 'iconv -f LATIN1']],
    [1, text('not.gz'), 'incorrect header check', ['not.gz']],
    [1, text('no-table.parquet'), 'no-table.parquet is a table', ['--field']],
    [1, text('plain.parquet', '--field', 'text'), 'is not a valid Parquet file', ['plain.parquet']],
    [
      1,
      text('lines.jsonl', '--field', 'text'),
      'has no text in the field "text"',
      ['line 1 of lines.jsonl', 'name one of other with --field'],
    ],
    [1, text('broken.jsonl', '--field', 'text'), 'is not JSON', ['line 1 of broken.jsonl', '--field']],
    [1, text('notes.txt', '--out', 'file'), 'cannot write to file', ['--out']],
    [1, text('notes.txt', '--out', 'data'), 'data holds random_train.bin', ['--out']],
    [1, ['prepro', 'tinystories', '--from', 'none'], 'the text none cannot be read', ['none']],
    [1, ['prepro', 'tinystories', '--from', 'empty'], 'empty has no text file *.txt', ['name files']],
    [2, ['prepro', 'fineweb', '--version', '100B'], 'not "100B"', ['--version takes one of 10B, edu']],
    [2, ['prepro', 'fineweb', '--shards', '0'], 'not "0"', ['--shards takes a whole number']],
    [2, ['prepro', 'fineweb', '--tokenizer', 'bytes'], '--tokenizer bytes needs the text', ['--from']],
    [1, ['prepro', 'fineweb', '--from', 'lines.jsonl'], 'has no text in the field "text"', ['lines.jsonl', '--field']],
    [2, ['prepro', 'inspect'], "missing required argument 'SHARD'", ['prepro inspect --help']],
    [2, ['prepro', 'inspect', 'data', '--at', '-1'], 'not "-1"', ['--at takes a whole number']],
    [1, ['prepro', 'inspect', 'none.bin'], 'cannot be opened: ENOENT', ['none.bin', 'prepro']],
    [1, ['prepro', 'inspect', 'notes.bin'], 'is not a token shard: it has 5 bytes', ['notes.bin', 'prepro']],
    [
      1,
      ['prepro', 'inspect', 'data/random_val.bin', '--at', '2000'],
      'has 2000 tokens, none at 2000',
      ['random_val.bin', '--at'],
    ],
  ],
  sample: [
    ...Object.entries({
      '--num_samples=4': '--count, texts per prompt (default: 1)',
      '--max_new_tokens': '--tokens, maximum new tokens per text (default: 128)',
      '--start': '--prompt, text to continue',
      '--top_k': '--top-k, choose among',
      '--temp': '--temperature, 0: always the likeliest token',
      '--init_from': '--model, a run, a checkpoint',
      '--out_dir': '--model, a run, a checkpoint',
    }).map(
      ([typed, meant]): Row => [2, ['sample', typed, '4'], `unknown option '${typed}'`, [`: here it is ${meant}`]],
    ),
    [2, ['sample', '--temperature', 'hot'], 'not "hot"', ['--temperature takes a number']],
    [2, ['sample', '--top-p', '2'], 'not "2"', ['--top-p takes a number from 0 to 1']],
    [2, ['sample', '--model', 'run', '--device', 'tpu'], 'not "tpu"', ['--device takes']],
    [1, ['sample', ...cpu], 'runs/ has no trained model', ['train', '--model']],
    [
      1,
      ['sample', ...cpu, '--model', 'none'],
      'none does not exist',
      ['name a run, a checkpoint, a Hugging Face folder'],
    ],
    [
      1,
      ['sample', ...cpu, '--model', 'data'],
      'data is neither a checkpoint nor a run',
      ['name a run, a checkpoint, a Hugging Face folder'],
    ],
  ],
  eval: [
    [1, ['eval', ...cpu], 'runs/ has no trained model', ['train', '--model']],
    [2, ['eval', '--model', 'run', '--tokens', '0'], 'not "0"', ['--tokens takes a whole number of at least 1']],
    [2, ['eval', '--model', 'run', '--role', 'test'], 'not "test"', ['--role takes one of val, train']],
    [2, ['eval', '--model', 'run', '--dtype', 'fp16'], 'not "fp16"', ['--dtype takes one of fp32, tf32, bf16, fp8']],
    [2, ['eval', ...cpu, '--model', 'run', '--seq', '65'], 'is over the model', ['--seq 65']],
    [1, ['eval', ...cpu, '--model', 'run', '--data', 'none'], 'none does not exist', ['--data']],
    [
      1,
      ['eval', ...cpu, '--model', 'run', '--data', 'small'],
      'small has a vocabulary of 100 tokens',
      ['run/checkpoints'],
    ],
    [1, ['eval', ...cpu, '--model', 'run', '--hellaswag', 'none'], 'there are no questions in none', ['--hellaswag']],
    [
      1,
      ['eval', ...cpu, '--model', 'run', '--hellaswag', 'notes.bin'],
      'is not a file of multiple-choice',
      ['notes.bin'],
    ],
  ],
  compare: [
    [2, ['compare'], "missing required argument 'RUN'", ['compare --help']],
    [2, ['compare', 'run', '--tolerance', 'x'], 'not "x"', ['--tolerance takes a number']],
    [2, ['compare', 'run', '--out', 'x.gif'], 'not "x.gif"', ['--out takes a file that ends in .svg or .png']],
    [1, ['compare', 'none'], 'none does not exist', ['train']],
    [1, ['compare', 'run', '--reference', 'none'], 'there is no reference none', ['llmc-d6-fp32-b4-t64']],
    [1, ['compare', 'run', '--reference', 'notes.txt'], 'is not a reference curve', ['notes.txt']],
    [1, ['compare', 'run', '--reference', 'run'], 'cannot be compared with itself', ['run']],
    [
      1,
      ['compare', 'run', '--reference', 'llmc-d6-fp32-b4-t64'],
      /is not configured as .*layers 1 instead of 6/,
      ['--reference'],
    ],
    [1, ['compare', 'run', '--out', 'file/x.svg'], 'cannot write the plot file/x.svg', ['--out']],
  ],
  report: [
    [2, ['report', 'run', '--port', '0'], '--port goes with --serve', ['--serve']],
    [2, ['report', 'run', '--serve', '8943'], /too many .*"8943"/, ['a port goes with its flag, as --port 8943']],
    [2, ['report', '--serve', '8943'], 'there is no run 8943', ['give a port with its flag, as --serve --port 8943']],
    [2, ['report', 'run', '--serve-host', '0.0.0.0'], '--serve-host goes with --serve', ['--serve']],
  ],
  export: [
    [2, ['export', '--out', 'x'], "required option '--format <NAME>' not specified", ['give one of hf, llmc, gguf;']],
    [1, ['export', '--format', 'hf', '--out', 'x'], 'runs/ has no trained model', ['train', '--model']],
    [2, ['export', '--model', 'run', '--format', 'pt', '--out', 'x'], 'not "pt"', ['--format takes one of hf, llmc']],
    [
      2,
      ['export', '--model', 'run', '--format', 'llmc', '--dtype', 'fp16', '--out', 'x'],
      'writes fp32 or bf16',
      ['--dtype', '--format'],
    ],
    [
      1,
      ['export', '--model', 'notes.bin', '--format', 'hf', '--out', 'x'],
      'is not a model file of llm.c',
      ['notes.bin'],
    ],
    [1, ['export', '--model', 'run', '--format', 'gguf', '--out', 'notes.bin'], 'notes.bin already exists', ['--out']],
    [1, ['export', '--model', 'run', '--format', 'hf', '--out', 'file/x'], 'cannot write file/x', ['--out']],
  ],
  bench: [
    [2, ['bench', '--batch', '0'], 'not "0"', ['--batch takes a whole number']],
    [2, ['bench', ...cpu, '--model', 'runs/x'], 'not "runs/x"', ['--model takes one of d6']],
    [2, ['bench', ...cpu, '--model', 'custom'], 'not "custom"', ['--model takes one of d6']],
    [2, ['bench', ...cpu, '--batch', 'auto'], 'not "auto"', ['--batch takes a whole number from 1 to 65536']],
    [1, ['bench', ...cpu, '--out', 'none/x.json'], 'which does not exist', ['--out none/x.json']],
    [1, ['bench', ...cpu, '--data', 'none'], 'none does not exist', ['--data']],
  ],
  presets: [[2, ['presets', 'mine'], 'not "mine"', ['NAME takes one of shakespeare-laptop, gpt2-124m-fineweb']]],
  runs: [[2, ['runs', '--sort', 'loss'], 'not "loss"', ['--sort takes one of run, started']]],
  doctor: [
    [2, ['doctor', '--jsno'], "unknown option '--jsno'", ['did you mean --json?']],
    [2, ['doctor', 'extra'], "too many arguments for 'doctor'", ['doctor --help']],
  ],
  replay: [
    [2, ['replay'], "missing required argument 'CAPTURE'", ['replay --help']],
    [2, ['replay', 'none', '--device', 'tpu'], 'not "tpu"', ['--device takes']],
    [1, ['replay', 'none'], 'none is not a capture', ['<RUN>/captures/step-']],
    [1, ['replay', 'run'], 'run is not a capture', ['<RUN>/captures/step-']],
  ],
};

describe.concurrent.each(Object.entries(rows))('%s', (_, refusals) => {
  it.each(refusals)('exit %d: gpt2 %j', async (code, args, what, where, more) => {
    const wanted: Refusal = { code, what, where, ...more };
    expectRefusal(await place.finished(args, { GPT2_DATASETS: place.path('sets') }), wanted);
  });
});

it.concurrent.each([
  ['export', '--model', 'none', '--format', 'hf', '--out', 'x'],
  ['prepro', 'tinyshakespeare', '--from', 'none', '--out', 'x'],
  ['prepro', 'tinystories', '--from', 'none', '--out', 'x'],
  ['prepro', 'fineweb', '--from', 'none', '--out', 'x'],
])('--verbose shows the stack of the error: gpt2 %s %s', async (...args) => {
  const { code, stderr } = await place.finished([...args, '--verbose']);
  expect(code).toBe(1);
  expect(stderr).toMatch(/Error: .*none.*\n {4}at /);
});

describe('after all of them', () => {
  it('nothing is left behind', () => {
    expect(everything()).toEqual(before);
  });
});
