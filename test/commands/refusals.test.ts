// Wrong inputs of every command, as a user types them: each is answered in one line with what, where and what to do, and
// leaves nothing behind.
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, rmSync, truncateSync } from 'node:fs';
import { beforeAll, describe, expect, it } from 'vitest';
import { writeQuestions } from '../../src/data/shards/multiple-choice.ts';
import { writtenModel } from '../checkpoint/trained-model.ts';
import { type Finished, tinyModel, Workplace, withCode, workplace } from '../support/cli.ts';
import { randomQuestions } from '../support/questions.ts';
import { expectRefusal, type Refusal } from '../support/refusal.ts';
import { tinyConfig } from '../support/tiny-model.ts';

const place = workplace();
let before: string[];
/** All files, but for the work that prepro has done and keeps. */
const everything = () =>
  readdirSync(place.folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => !name.startsWith('data/many'))
    .sort();

/** Files that begin as another format does, what they are called, and the program that unpacks them. */
const packed: Record<string, [start: number[], what: string, program: string]> = {
  'a.jsonl.zst': [[0x28, 0xb5, 0x2f, 0xfd], 'compressed with zstd', 'zstd -d'],
  'a.xz': [[0xfd, 0x37, 0x7a, 0x58, 0x5a, 0], 'compressed with xz', 'xz -dk'],
  'a.txt.bz2': [[0x42, 0x5a, 0x68, 0x39], 'compressed with bzip2', 'bzip2 -dk'],
  'a.zip': [[0x50, 0x4b, 0x03, 0x04], 'a zip archive', 'unzip'],
  'a.pdf': [[0x25, 0x50, 0x44, 0x46, 0x2d, 0xff], 'a PDF', 'pdftotext'],
};

beforeAll(() => {
  place.data({ val: 1000, vocabulary: 50257 });
  place.data({ name: 'small', vocabulary: 100 });
  for (const name of ['typo', 'unlike']) place.data({ name });
  const renamed = { source: 'x', tokenizer: 'gpt-2', vocabularySize: 50257, shards: [] };
  place.file('typo/dataset.json', JSON.stringify(renamed));
  place.file('unlike/dataset.json', JSON.stringify({ ...renamed, tokenizer: 'bytes' }));
  place.data({ name: 'short', train: 200 });
  place.data({ name: 'data/inside' });
  const options = '--order llmc --steps 1 --lr 6e-4 --weight-decay 0.1 --seq 32 --val-every 0 --sample-every 0';
  place.ok(['train', '--data', 'data', '--out', 'run', ...tinyModel, ...options.split(' ')]);
  cpSync(place.path('short'), place.path('torn'), { recursive: true });
  truncateSync(place.path('torn/random_train.bin'), 1324);
  place.file('letters.txt', 'A few letters, and again: the same words.\n'.repeat(300));
  place.ok(['prepro', 'text', 'letters.txt', '--tokenizer', 'char', '--out', 'letters']);
  for (const name of ['empty', 'sets/inside']) mkdirSync(place.path(name), { recursive: true });
  const files: Record<string, string | Uint8Array> = {
    'sets/tinyshakespeare/input.txt': 'another text',
    'stories/TinyStories-train.txt': 'Once.\n<|endoftext|>\nTwice.\n',
    'stories/TinyStories-valid.txt': 'Never.\n',
    'stories/not.bin': 'x'.repeat(2000),
    'notes.txt': 'a few words',
    'a text.txt': 'a few words',
    'notes.bin': 'notes',
    'bytes.bin': Buffer.alloc(200_000, 0xff),
    'blank.txt': ' \n\t',
    'nothing.txt': '',
    'latin1.txt': Buffer.from('abc é', 'latin1'),
    'utf16.txt': Buffer.from('\ufeffabc', 'utf16le'),
    'no-mark.txt': Buffer.from('abc', 'utf16le'),
    'cut.txt': Buffer.from('abc 漢').subarray(0, 6),
    'numbers.json': '["a", 5]',
    'half.json': '["a", ',
    'lines.jsonl': '{"other": "a"}\n',
    'one.jsonl': '{"text": "a"}\n',
    'numbers.jsonl': '{"text": "a"}\n{"text": 3}\n',
    'double.jsonl': '{"text": "a", "other": 1, "other": 2}\n{"text": "b", "text": "c"}\n',
    'null.jsonl': '{"text": null}\n',
    'surrogate.jsonl': '{"text": "\\ud83d\\ude00"}\n{"text": "\\ud800"}\n',
    'broken.jsonl': '{"text": "a"}\n{"text": "b"\n',
    'many.jsonl': `\n${`{"text": "${'abc '.repeat(250)}"}\n`.repeat(6000)}{\n`,
    'not.gz': 'plain',
    'no-table.parquet': 'plain',
    'plain.parquet': 'PAR1',
    file: '',
    'options.json': '{"bach": 2}',
    'elsewhere.json': '{"max_steps": 2}',
    'wrong.json': '{"batch": "x"}',
    'null.json': '{"batch": null}',
    'long.json': '{"preset": "gpt2-124m-fineweb", "batch": 5, "sequence": 60}',
    'lr-first.json': '{"lr": 1, "learningRate": 2}',
    'twice.json': '{"learningRate": 1, "lr": 2}',
    'array.json': '[]',
    'torn.json': '{',
    'same.json': '{"batch": 2, "batch": 4}',
  };
  for (const [name, content] of Object.entries(files)) place.file(name, content);
  for (const [name, [start]] of Object.entries(packed)) place.file(`packed/${name}`, Buffer.from(start));
  writeQuestions(place.path('questions.bin'), randomQuestions(20, { vocabulary: 50257, longest: 40 }));
  for (const [name, vocabularySize] of Object.entries({ nobodys: 300, diverged: 257 })) {
    writtenModel(place.path(name, 'checkpoints'), { ...tinyConfig, vocabularySize }, ({ masters }) => {
      if (name === 'diverged') masters.get('lnfb').write(new Float32Array(48).fill(Number.NaN));
    });
  }
  before = everything();
});

/** Exit code, what follows the command, what is wrong, what is named besides; lines before the message. */
type Row = [code: 1 | 2, line: string, what: string | RegExp, where: string | string[], notices?: number];

const otherFlags = (flags: Record<string, string>) =>
  Object.entries(flags).map(
    ([typed, meant]): Row => [2, `${typed} 4`, `unknown option '${typed}'`, `: here it is ${meant}`],
  );

/** Values that a flag does not take, after the start of a line; `takes` begins with the flag. */
const wrong = (takes: string, values: readonly string[], line = '') =>
  values.map((value): Row => [2, `${line} ${takes.split(' ')[0]}=${value}`, `not "${value}"`, takes]);

const train = `train --data data --out new --steps 1 ${tinyModel.join(' ')}`;
const pretrained = '; the pretrained GPT-2 of this size is --model openai-community/gpt2';
/** Models that no command takes, after the start of a line. */
const models = (line = ''): Row[] => [
  [1, line, 'runs/ has no trained model', ['train', '--model']],
  [1, `${line} --model none`, 'none does not exist', 'name a run, a checkpoint, a Hugging Face folder, OWNER'],
  [1, `${line} --model notes.bin`, 'notes.bin is not a model file of llm.c: it has 5 bytes', 'name a run'],
  [2, `${line} --model gpt2`, '--model gpt2 is a size', pretrained],
];
const stories = 'tinystories --out x --from stories/TinyStories-';
const shorter = 'take a shorter --warmup (from --preset shakespeare-laptop: --warmup 100)';
const laptop = 'train --preset shakespeare-laptop --data data --steps 20';
/** By the command that the lines of a table begin with. */
const tables: Record<string, Row[]> = {
  gpt2: [
    [2, 'trian', "unknown command 'trian'", ['Did you mean train?', '--help']],
    [2, '--versio', "unknown option '--versio'", '--help'],
  ],
  [train]: [
    ...otherFlags({
      '--learning-rate': '--lr',
      '--max-steps': '--steps',
      '--max-iters': '--steps',
      '--epochs': '--steps, optimizer steps; the schedule spans them (default: one epoch)',
      '--batch-size': '--batch',
      '--batch_size': '--batch',
      '--batchsize=4': '--batch',
      '--block-size': '--seq',
      '--tokens-per-step': '--total-batch',
      '--init-from': '--model',
      '-t': '--seq',
    }),
    [2, '--lora 4', "unknown option '--lora'", ['LoRA is not supported', 'train --help']],
    [2, '--step 4', "unknown option '--step'", 'did you mean --steps?'],
    [2, '--init_from=resume', "unknown option '--init_from=resume'", 'here it is --resume'],
    [
      2,
      '--compile=False --eval_interval=20 --seed=1 --lr_decay_iters 9 --stpes=2 --zzz',
      'unknown options: --compile=False: the kernels are compiled already; --eval_interval=20: here it is --val-every; ',
      '; --lr_decay_iters: with --schedule cosine the rate falls over all steps; --stpes=2: did you mean --steps?; --zzz: there is none like it',
    ],
    [2, 'surplus', /too many arguments for 'train': "surplus"/, ['every value needs its flag', 'train --help']],
    [2, 'data', /too many arguments for 'train': "data"/, ['as --model data', 'train --help']],
    [2, '--lr', /option '--lr <X>' argument missing/, 'train --help'],
    ...wrong('--lr takes a number of at least 0', ['abc']),
    ...wrong('--batch takes a whole number from 1 to 65536 or auto', ['0', '2.5', '0x10']),
    [2, '--seed 4294967296', 'not "4294967296"', '--seed takes a whole number from 0 to 4294967295'],
    [2, '--lr 1e40', 'not "1e40"', '--lr takes a number from 0 to 3.4028234663852886e+38'],
    [2, '--dtype fp16', 'not "fp16"', '--dtype takes one of fp32, tf32, bf16, fp8'],
    [2, '--device tpu', 'not "tpu"', '--device takes auto, cpu, cuda or cuda:N'],
    [2, '--seq 65', "--seq 65 is over the model's context of 64 positions", '--seq'],
    [2, '--total-batch 300', 'is not a multiple of', ['--total-batch 300', '--batch 4', '--seq 64']],
    ...wrong('--window takes a whole number of at least 1', ['0', '-5']),
    [2, '--short-window 5', '--short-window goes with --window', 'give both'],
    [2, '--window-schedule linear', '--window-schedule goes with --window', 'give both'],
    [2, '--window 4 --short-window 5', '--short-window 5 needs a window that is at least as long, not 4', '--window'],
    [2, '--value-embeddings 2', '--value-embeddings 2 need twice as many layers', 'give fewer'],
    [2, '--attention-scale 0.1', '--attention-scale 0.1 needs --positions rotary', '--attention-scale 0'],
    [2, '--rotary-base 500', '--rotary-base 500 has no effect with --positions learned', '--positions rotary'],
    [1, '--document-mask', 'holds its token, 50256', ['--no-document-mask', 'data', 'prepro']],
    [1, '--document-mask --data letters', 'the tokenizer of letters (char) has no end of text', '--no-document-mask'],
    [2, '--heads 3', 'channels 32 are not divisible by heads 3', ['--heads', '--channels']],
    [2, '--warmup 5', '--warmup 5 is over --steps 1', '--warmup'],
    [2, '--model d7', 'd7 does not exist', '--model takes d6'],
    [2, '--resume --overwrite', 'exclude each other', ['--resume', '--overwrite']],
    [2, '--keep-every 2', '--keep-every goes with --keep', 'give both'],
    [2, '--hellaswag none.bin', '--hellaswag goes with --hellaswag-every', 'give both'],
    [2, '--serve-host 0.0.0.0', '--serve-host goes with --serve', '--serve'],
    ...wrong('--serve takes a whole number from 0 to 65535', ['-1', '65536', 'x', '1.5']),
    [1, '--serve 0 --serve-host 192.0.2.1', '192.0.2.1 is not an address of this machine', '--serve-host'],
    [1, '--serve 0 --serve-host nowhere.invalid', 'nowhere.invalid is not an address of this machine', '--serve-host'],
    [2, '--config options.json', 'there is no option "bach"', 'options.json'],
    [2, '--config elsewhere.json', 'there is no option "max_steps"', ['elsewhere.json', 'did you mean "steps"?']],
    [2, '--config twice.json', 'gives "learningRate" twice', ['twice.json', 'as "learningRate" and as "lr"']],
    [2, '--config lr-first.json', 'twice, as "lr" and as "learningRate"', ['lr-first.json', 'remove one']],
    [2, '--config null.json', 'not null', 'null.json: --batch takes'],
    [2, '--config wrong.json', 'not "x"', 'wrong.json: --batch takes'],
    [
      2,
      '--config long.json',
      'is not a multiple of',
      '(from --config long.json: --batch 5, --seq 60; from --preset gpt2-124m-fineweb: --total-batch 524288)',
    ],
    [1, '--config empty', 'cannot be read: ENOENT', 'empty/config.json'],
    [1, '--config torn.json', 'cannot be read', ['torn.json', '--config']],
    [1, '--config same.json', 'it has the key "batch" twice in one object', ['same.json', '--config']],
    [1, '--config latin1.txt', 'it is not UTF-8 at byte 4 (0xe9)', ['latin1.txt', '--config']],
    [1, '--config array.json', 'must hold one JSON object', ['array.json', 'config.json']],
    [1, '--config none.json', 'ENOENT: no such file or directory; ', ['none.json', '--config']],
    [1, '--data none', 'none does not exist', ['--data, such as data, letters, short and', 'text FILE --out none']],
    [
      1,
      '--data typo',
      'names the tokenizer gpt-2 of 50257 ids',
      ['typo/dataset.json', 'none of gpt2 of 50257, bytes of 257'],
    ],
    [1, '--data unlike', 'names the tokenizer bytes of 50257 ids', 'unlike/dataset.json'],
    [1, '--data smal', 'smal does not exist', 'did you mean small?'],
    [1, '--data inside', 'inside does not exist', 'did you mean data/inside?'],
    [1, '--data data/own-source/', 'there is no data in data/own-source/', 'prepro own-source'],
    [1, '--data empty', 'empty has no train shard', 'prepro'],
    [1, '--data torn', 'header says 200 tokens, 1424 bytes in all, but it has 1324', 'random_train.bin'],
    [1, '--data sets/inside/', 'sets/inside/ has no train shard', 'did you mean data/inside?'],
    [1, '--data notes.bin', 'cannot be read as a folder', ['notes.bin', '--data', 'text notes.bin']],
    [1, '--data data/random_train.bin', 'cannot be read as a folder', 'name its folder, data'],
    [1, '--data .', '. has no train shard', 'name one of the folders in it, such as data, letters, short and'],
    [1, '--data short --order llmc', 'too few for 4 sequences of 64', ['random_train.bin', '--batch that fits is 3']],
    [1, '--out file', 'file is not a folder', '--out'],
    [1, '--out data', 'data holds dataset.json, inside, random_train.bin and 1 more, which no run wrote', '--out'],
    [1, '--out .', '. is a folder of runs', 'name one with --out, such as run, or a new one in it'],
    [1, '--out /proc/x', 'cannot write the run folder', ['/proc/x', '--out']],
    [1, '--out file/run', 'cannot write the run folder', ['file/run', '--out']],
    [1, '--out run', 'run already holds a run', ['--resume', '--overwrite', '--out']],
    [1, '--model empty', 'neither a checkpoint nor a run', 'empty'],
    [1, '--model notes.bin', 'is not a model file of llm.c', 'notes.bin'],
    [2, '--model run --window 8', 'was trained with --window none', 'leave out --window'],
    [2, '--model run --layers 2', 'was trained with --layers 1', 'leave out --layers'],
    [1, '--dtype tf32', /^the CPU library has no tf32, only fp32, bf16 and fp8(?!.*GPT2_)/, 'dtype'],
    [1, '--hellaswag-every 1 --hellaswag none.bin', 'there are no questions in none.bin', '--hellaswag'],
    [1, '--batch 64 --max-memory 0.1 --model d12', /needs \d.* GiB/, ['--batch 64', '--max-memory 0.1', '--seq']],
  ],
  train: [
    [2, '--model d6 --seq 1025', "--seq 1025 is over the model's context of 1024", '--seq'],
    [2, '--model custom --layers 2', '--model custom needs --layers', ['--channels', '--heads']],
    [2, '--resume runs/x', 'no value, not "runs/x"', 'continue a run there, give --out runs/x --resume'],
    [2, '--resume', '--resume needs --out', 'the folder of the run to continue'],
    [1, '', 'there is no data in data/tinyshakespeare', ['prepro tinyshakespeare', '--data']],
    [1, '--out . --resume', '. is a folder of runs', 'name one with --out, such as run,'],
    [1, '--out none --resume', 'there is no run to resume in none', '--resume'],
    [1, '--out run --resume --layers 2', 'it was trained with 1', ['cannot resume run', '--layers 2']],
  ],
  [laptop]: ['', '--dry-run', '--sweep seed=1,2'].map((more) => [2, more, '--warmup 100 is over --steps 20', shorter]),
  prepro: [
    [2, '', 'no data set was named', 'tinyshakespeare, moby-dick, own-source, hellaswag, text'],
    [2, 'tinyshakespear', 'no data set "tinyshakespear"', 'did you mean tinyshakespeare?'],
    [2, 'shakespeare_char', 'no data set', 'did you mean tinyshakespeare --tokenizer char?'],
    [2, 'empty', 'there is no data set "empty"', 'prepro text empty`, or name one of tinyshakespeare'],
    [2, '"a text.txt"', 'there is no data set "a text.txt"', "prepro text 'a text.txt'`"],
    [2, 'wikitext', 'there is no data set "wikitext"', 'name one of tinyshakespeare, moby-dick, own-source'],
    [2, 'own-source --from notes.txt', 'own-source takes no --from', 'its files come with the package'],
    [1, 'tinyshakespeare --from none.txt', 'none.txt cannot be read', '--from'],
    [1, 'tinyshakespeare --from blank.txt', 'blank.txt is empty', '--from'],
    [1, 'tinyshakespeare --from nothing.txt', 'nothing.txt is empty', '--from'],
    [1, 'tinyshakespeare --from notes.txt', 'is too short', ['notes.txt', '--from'], 1],
    [1, 'own-source --out file/x', 'cannot write to file/x', '--out'],
    [1, 'tinyshakespeare', /has sha256 [0-9a-f]{64}, not/, ['tinyshakespeare/input.txt', '--from']],
    [1, 'hellaswag', 'GPT2_DATASETS has no hellaswag', ['hellaswag_val.jsonl', '--from']],
    [1, 'hellaswag --from none', 'the questions none cannot be read', '--from'],
    [1, 'hellaswag --from lines.jsonl', /not a question .* at ctx/, ['line 1 of lines.jsonl', '--from']],
    [2, 'hellaswag --tokenizer char', 'hellaswag takes no --tokenizer', 'GPT-2'],
    [2, 'text', "missing required argument 'FILE'", 'prepro text --help'],
    [1, 'tinystories --from none', 'the text none cannot be read', 'none'],
    [1, 'tinystories --from empty', 'empty has no text file *.txt', 'name files'],
    [1, `${stories}train.txt`, /^none of the \d+ tokens are for validation: /, 'add a file with "val" in its name'],
    [1, `${stories}valid.txt`, /^none of the \d+ tokens are for training: /, 'add a file with "train" in its name'],
    [2, 'fineweb --version 100B', 'not "100B"', '--version takes one of 10B, edu'],
    [2, 'fineweb --shards 0', 'not "0"', '--shards takes a whole number from 1 to 1100'],
    [2, 'fineweb --tokenizer bytes', '--tokenizer bytes needs the text', ': give the text with --from'],
    [1, 'fineweb --from lines.jsonl', 'has no text in the field "text"', ['lines.jsonl', '--field']],
    [1, 'fineweb --from one.jsonl', /all \d+ tokens are in the first shard, which is val/, 'a smaller --shard-tokens'],
    [1, 'fineweb --from plain.parquet', 'plain.parquet is not a valid Parquet file: ', 'download'],
    [1, 'fineweb --from stories', 'stories has no text file *.parquet, *.jsonl, *.jsonl.gz, *.json.gz', ': name files'],
    [2, 'inspect', "missing required argument 'SHARD'", 'prepro inspect --help'],
    [2, 'inspect data --at -1', 'not "-1"', '--at takes a whole number'],
    [2, 'inspect data/random_val.bin --at x', 'not "x"', '--at takes a whole number from 0 to 2147483647'],
    [2, 'inspect data/random_val.bin --count 0', 'not "0"', '--count takes a whole number from 1'],
    [1, 'inspect none.bin', 'cannot be opened: ENOENT', ['the token shard none.bin', 'prepro']],
    [1, 'inspect notes.bin', 'is not a token shard: it has 5 bytes', ['notes.bin', 'prepro']],
    [1, 'inspect stories/not.bin', 'is not a token shard: it begins with', ['not.bin', 'prepro']],
    [1, 'inspect typo/random_val.bin', 'names the tokenizer gpt-2 of 50257', 'typo/dataset.json'],
    [1, 'inspect data/random_val.bin --at 1000', 'has 1000 tokens, none at 1000', ['random_val.bin', '--at']],
  ],
  'prepro tinyshakespeare --out new': [
    [1, '--from latin1.txt', 'it is not UTF-8 at byte 4 (0xe9)', ['the text latin1.txt cannot be read', '--from']],
  ],
  'prepro text --workers 1': [
    ...Object.entries(packed).map(([name, [, what, program]]): Row => {
      const advice = `: unpack it with \`${program} packed/${name}\`, and name the text`;
      return [1, `packed/${name}`, `packed/${name} is ${what}`, advice];
    }),
    ...wrong('--val-fraction takes a number over 0 and under 1', ['0', '1', '2'], 'notes.txt'),
    ...wrong('--tokenizer takes gpt2, bytes, char, a tokenizer.json or a folder that has one', ['gpt4'], 'notes.txt'),
    [1, 'notes.txt --tokenizer ./none.json', './none.json does not exist', '--tokenizer'],
    [2, 'notes.txt --shard-tokens 0', 'not "0"', '--shard-tokens takes a whole number from 1'],
    [2, 'notes.txt --workers 0', 'not "0"', '--workers takes a whole number from 1 to 256'],
    [2, 'notes.txt --worker 1', "unknown option '--worker'", 'did you mean --workers?'],
    [2, "notes.txt --separator ''", 'a file is a document', '--separator takes a text'],
    [2, 'notes.txt --field a --separator b', 'exclude each other', '--field and --separator'],
    [2, "notes.txt --include '*.md'", 'select files of folders, and notes.txt is none', ['--include', 'a folder']],
    [2, 'notes.txt --exclude notes.txt', 'select files of folders, and notes.txt is none', ['--exclude', 'a folder']],
    [1, 'notes.txt ./notes.txt', 'is named twice', ['./notes.txt', 'name it once']],
    [1, 'stories stories/not.bin', 'is named twice', ['stories/not.bin', 'name it once']],
    [1, 'none.txt', 'cannot be read: it does not exist', 'the text none.txt'],
    [1, 'empty', 'empty has no text file', ': name files'],
    [1, 'blank.txt', 'the files contain no text', 'name files'],
    [1, 'nothing.txt', 'the files contain no text', 'name files'],
    [1, 'notes.txt', 'too short to be divided', '--separator'],
    [1, 'latin1.txt', 'is not UTF-8 at byte 4 (0xe9)', ['latin1.txt', 'LATIN1, GB18030 or UTF-16, with `iconv -f']],
    [1, 'utf16.txt', 'has a NUL at byte 3, which no text has', ['utf16.txt', 'iconv -f UTF-16 -t UTF-8']],
    [1, 'no-mark.txt', 'has a NUL at byte 1, which', ['no-mark.txt', 'iconv -f UTF-16LE']],
    [1, 'cut.txt', 'is not UTF-8 at byte 4 (0xe6)', 'cut.txt'],
    [1, 'not.gz', 'incorrect header check', 'the text not.gz cannot be read'],
    [1, 'no-table.parquet', 'no-table.parquet is a table', '--field'],
    [1, 'plain.parquet --field text', 'is not a valid Parquet file', 'plain.parquet'],
    [1, 'lines.jsonl --field text', 'has no text in the field "text"', ['line 1 of lines.jsonl', 'name one of other']],
    [1, 'numbers.jsonl --field text', 'has no text in the field "text": it is 3', 'line 2 of numbers.jsonl'],
    [1, 'null.jsonl --field text', 'no text in the field "text": it is null', ['line 1', 'remove the line']],
    [1, 'surrogate.jsonl --field text', 'has "\\ud800" (U+D800), half of a character', 'line 2 of surrogate.jsonl'],
    [1, 'numbers.json --field text', 'has no', 'line 2 of numbers.json'],
    [1, 'half.json --field text', 'half.json is not a valid JSON array: it ends too early', 'half.json'],
    [1, 'double.jsonl --field text', 'has the key "text" twice in one object', ['line 2 of double.jsonl', '--field']],
    [1, 'broken.jsonl --field text', 'is not JSON', ['line 2 of broken.jsonl', '--field']],
    [1, 'many.jsonl --field text', 'is not JSON', 'line 6002 of many.jsonl'],
    [1, 'notes.txt --out file', 'cannot write to file: ', '--out'],
    [1, 'notes.txt --out data', 'data holds random_train.bin, which belongs to another data set', '--out'],
  ],
  quickstart: [
    [2, 'notes.txt', /too many .*"notes.txt"/, 'every value needs its flag'],
    [1, '--text none.txt', 'the text none.txt cannot be read', '--text'],
    [1, '--text data', 'the text data is not a file', '--text'],
    [1, '--text notes.txt', 'has 11 bytes, fewer than the 100,000', ['notes.txt', '--text']],
    [1, '--text bytes.bin', 'is not UTF-8 at byte 0 (0xff)', 'bytes.bin'],
  ],
  'tokenizer train': [
    [2, '', "missing required argument 'FILE'", 'tokenizer train --help'],
    [2, 'notes.txt --vocabulary 256', 'not "256"', '--vocabulary takes a whole number of at least 257'],
    [2, 'notes.txt --vocabulary 30001', 'always learns 30000 entries', '--vocabulary takes up to 30000'],
    [1, 'none.txt', 'no such file', ['the text none.txt cannot be used', 'name plain text files']],
    [1, 'latin1.txt', 'it is not UTF-8 at byte 4 (0xe9)', ['latin1.txt', 'name plain text files']],
    [1, 'cut.txt', 'it is not UTF-8', 'cut.txt'],
    [1, 'empty', 'EISDIR', 'name plain text files'],
    [1, 'nothing.txt', 'has no word of two bytes', ['nothing.txt', 'name longer texts']],
    [1, 'notes.txt --out notes.bin', 'notes.bin exists', '--out'],
    [1, 'notes.txt --out file/x', 'cannot write the tokenizer file/x', '--out'],
  ],
  'sample --device cpu --threads 1': [
    ...otherFlags({
      '--num_samples=4': '--count, texts per prompt (default: 1)',
      '--max_new_tokens': '--tokens, maximum new tokens per text (default: 128)',
      '--start': '--prompt, text to continue, after end of text',
      '--top_k': '--top-k, choose among',
      '--temp': '--temperature, 0: always the likeliest token',
      '--init_from': '--model, a run, a checkpoint',
      '--out_dir': '--model, a run, a checkpoint',
    }),
    [2, '--temperature hot', 'not "hot"', '--temperature takes a number'],
    [2, '--temperature=-1', 'not "-1"', '--temperature takes a number from 0 to 100'],
    [2, '--top-p 1.5', 'not "1.5"', '--top-p takes a number from 0 to 1'],
    ...wrong('--tokens takes a whole number from 1 to 1000000', ['12x', '0x10']),
    [2, "--seed ''", 'not ""', '--seed takes a whole number from 0 to 4294967295'],
    [2, '--count 0', 'not "0"', '--count takes a whole number from 1 to 100000'],
    [2, '-i --prompt x', '--interactive reads its prompts line by line', '--prompt'],
    [2, '--when-full burst', 'not "burst"', '--when-full takes one of slide, stop'],
    [2, '--model run --device tpu', 'not "tpu"', '--device takes auto, cpu, cuda or cuda:N'],
    [2, '--model run --dtype fp8', 'decodes in bf16 on a GPU', '--dtype'],
    [1, '--model run --dtype tf32', 'the CPU library has no tf32', 'dtype', 1],
    ...models(),
    [1, '--model data', 'data is neither a checkpoint nor a run', 'name a run, a checkpoint, a Hugging Face folder'],
    [1, '--model nobodys', '300 tokens, which no known tokenizer has', 'nobodys', 1],
    [1, '--model diverged', 'the weights of diverged', '--model', 1],
  ],
  'eval --device cpu --threads 1': [
    [2, '--text notes.txt', "unknown option '--text'", ': here it is --data, folder of token shards'],
    [2, '--split train', "unknown option '--split'", ': here it is --role'],
    ...models(),
    [2, '--model run --tokens 0', 'not "0"', '--tokens takes a whole number of at least 1'],
    [2, '--model run --steps 2', "unknown option '--steps'", ': here it is --tokens, tokens to predict'],
    [2, '--model run --role test', 'not "test"', '--role takes one of val, train'],
    [2, '--model run --dtype fp16', 'not "fp16"', '--dtype takes one of fp32, tf32, bf16, fp8'],
    [2, '--model run --seq 65', "is over the model's context of 64", '--seq 65'],
    [1, '--model run --data none', 'none does not exist', '--data'],
    [1, '--model run --data typo', 'names the tokenizer gpt-2 of 50257', 'typo/dataset.json'],
    [1, '--model run --data small', 'small has a vocabulary of 100 tokens', 'run/checkpoints'],
    [1, '--model run --hellaswag none', 'there are no questions in none', '--hellaswag'],
    [1, '--model run --hellaswag notes.bin', 'is not a file of multiple-choice', ['notes.bin', 'it has 5 bytes']],
    [1, '--model run --hellaswag questions.bin --seq 3', 'more than a sequence of 3', 'questions.bin'],
    [2, '--model run --hellaswag questions.bin --tokens 9', '--tokens 9 has no effect', '--data'],
    [2, '--model run --hellaswag questions.bin --role train', '--role train has no effect', '--data'],
    [1, '--model run --batch 64 --max-memory 0.1', /^--batch 64 .* needs 0.2 GiB/, 'allows no more; --batch 14 fits'],
  ],
  compare: [
    [2, '', "missing required argument 'RUN'", 'compare --help'],
    ...wrong('--tolerance takes a number', ['x', '-1', '', '1e999', 'Infinity'], 'run'),
    [2, 'run --over hours', 'not "hours"', '--over takes one of steps, tokens, seconds'],
    [2, 'run --out x.gif', 'not "x.gif"', '--out takes a file that ends in .svg or .png'],
    [1, 'none', 'none does not exist', 'train'],
    [2, 'run llmc-d6-fp32-b4-t64', 'is a reference, not a run', '--reference llmc-d6-fp32-b4-t64'],
    [1, 'run --reference none', 'there is no reference none', 'llmc-d6-fp32-b4-t64'],
    [1, 'run --reference notes.txt', 'is not a reference curve', 'notes.txt'],
    [1, 'run --reference run', 'cannot be compared with itself', 'run'],
    [1, 'run --reference llmc-d6-fp32-b4-t64', /is not configured as .*layers 1 instead of 6/, '--reference'],
    [1, 'run --out file/x.svg', 'cannot write the plot file/x.svg', '--out'],
  ],
  report: [
    [1, 'nothing', 'nothing does not exist', 'name a folder that train wrote'],
    [1, 'nothing --serve', 'nothing does not exist', 'name a folder that train wrote'],
    [1, 'run --html nowhere/x.html', 'cannot write the report nowhere/x.html: ', '--html'],
    [2, 'run --port 0', '--port goes with --serve', '--serve'],
    [2, 'run --serve --html x', '--html writes a file, --serve serves it', '--html'],
    [2, 'run --serve --port 70000', 'not "70000"', '--port takes a whole number from 0 to 65535'],
    [2, 'run --serve 8943', /too many .*"8943"/, 'a port goes with its flag, as --port 8943'],
    [2, '--serve 8943', 'there is no run 8943', 'give a port with its flag, as --serve --port 8943'],
    [2, 'run --serve-host 0.0.0.0', '--serve-host goes with --serve', '--serve'],
  ],
  export: [
    [2, '--out x', "required option '--format <NAME>' not specified", 'give one of hf, llmc, gguf;'],
    [2, '--format gguf', "required option '--out <PATH>' not specified", '--out'],
    ...models('--format hf --out x'),
    [2, '--model run --format pt --out x', 'not "pt"', '--format takes one of hf, llmc, gguf'],
    [2, '--model run --format llmc --dtype fp16 --out x', '--format llmc writes fp32 or bf16', ['--dtype', '--format']],
    ...['llmc --out notes.bin', 'gguf --out notes.bin', 'gguf --out empty', 'gguf --out data', 'hf --out data'].map(
      (given): Row => {
        const what = `${given.split(' ').at(-1)} already exists`;
        return [1, `--model run --format ${given}`, what, ': name another --out, or remove it'];
      },
    ),
    [1, '--model run --format hf --out file/x', 'cannot write file/x', '--out'],
    [1, '--model run --format gguf --out file/x', /^cannot write file\/x: (?!.*\.tmp)/, '; name another --out'],
  ],
  bench: [
    [2, '--batch 0', 'not "0"', '--batch takes a whole number'],
    [2, '--device cpu --model runs/x', 'not "runs/x"', '--model takes one of d6'],
    [2, '--device cpu --model custom', 'not "custom"', '--model takes one of d6'],
    [2, '--generate 8 --batch 2', "'--generate <N>' cannot be used with option '--batch <B>'", 'bench --help'],
    [2, '--device cpu --generate 1 --context 1000', 'which --context 1000 does not have', 'give a longer --context'],
    [2, '--device cpu --batch auto', 'not "auto"', '--batch takes a whole number from 1 to 65536'],
    [1, '--device cpu --out none/x.json', 'which does not exist', '--out none/x.json'],
    [1, '--device cpu --data none', 'none does not exist', '--data'],
  ],
  presets: [[2, 'mine', 'not "mine"', 'NAME takes one of shakespeare-laptop, gpt2-124m-fineweb']],
  runs: [[2, '--sort loss', 'not "loss"', '--sort takes one of run, started']],
  doctor: [
    [2, '--jsno', "unknown option '--jsno'", 'did you mean --json?'],
    [2, 'extra', "too many arguments for 'doctor'", 'doctor --help'],
  ],
  replay: [
    [2, '', "missing required argument 'CAPTURE'", 'replay --help'],
    [2, 'none --device tpu', 'not "tpu"', '--device takes'],
    [1, 'none', 'none is not a capture', '<RUN>/captures/step-'],
    [1, 'run', 'run is not a capture', '<RUN>/captures/step-'],
  ],
};

const env = () => ({ GPT2_DATASETS: place.path('sets') });
const expectRow = (finished: Finished, [code, , what, where, notices]: Row) =>
  expectRefusal(finished, { code, what, where: [where].flat(), notices } satisfies Refusal);

describe.each(Object.entries(tables))('%s', (command, rows) => {
  it.each(rows.map((row) => [row[1], row] as const))('%s', async (line, row) => {
    expectRow(await place.here(`${command === 'gpt2' ? '' : command} ${line}`, env()), row);
  });
});

it('started as a program says the same, with the same exit code', () => {
  for (const [command, index] of Object.entries({ gpt2: 0, [train]: 15, compare: 3 })) {
    const row = tables[command]![index]!;
    expectRow(place.run(`${command === 'gpt2' ? '' : command} ${row[1]}`, env()), row);
  }
});

it('a library that does not exist', () => {
  const finished = place.run(train, { GPT2_LIBRARY: place.path('none.so') });
  expectRow(finished, [1, '', /^there is no /, [place.path('none.so'), 'GPT2_LIBRARY names it']]);
});

// The system's refusal, by a library before libc.
const refusesTiles = `#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sys/syscall.h>
long syscall(long number, long a, long b, long c, long d, long e, long f) {
  if (number == SYS_arch_prctl) return errno = EPERM, -1;
  return ((long (*)(long, ...))dlsym(RTLD_NEXT, "syscall"))(number, a, b, c, d, e, f);
}
`;

it.runIf(process.platform === 'linux' && process.arch === 'x64')('path amx, where it cannot run', () => {
  using other = new Workplace();
  execFileSync('cc', ['-shared', '-fPIC', '-o', other.path('refuse.so'), other.file('refuse.c', refusesTiles)]);
  const refused = { LD_PRELOAD: other.path('refuse.so') };
  const why =
    'this CPU has no AMX|the system refuses the registers of AMX \\(Operation not permitted\\)|this build lacks it';
  const message = new RegExp(`^expected GPT2_KERNELS to be one of .*portable on this CPU, got amx: (${why}); `);
  expectRow(place.run(train, { ...refused, GPT2_KERNELS: 'amx' }), [1, '', message, 'correct or unset GPT2_KERNELS']);
  const { stdout, stderr } = place.ok(`${train} --dtype bf16`, refused);
  expect(stdout + stderr).toMatch(/^--dtype bf16 has no AMX on code path \w+: --dtype fp32 is faster here$/m);
  rmSync(place.path('new'), { recursive: true });
  expect(place.run('doctor', refused).stdout).toMatch(
    new RegExp(`^ok {4}cpu library +.* cpu \\w+ \\(not amx: (${why})\\) on `, 'm'),
  );
});

it.each([
  'export --model none --format hf --out x',
  'prepro tinyshakespeare --from none --out x',
  'prepro tinystories --from none --out x',
  'prepro fineweb --from none --out x',
])('--verbose shows the stack of the error: gpt2 %s', async (line) => {
  const { stderr } = withCode(1, await place[line.startsWith('export') ? 'run' : 'here'](`${line} --verbose`));
  expect(stderr).toMatch(/Error: .*none.*\n {4}at /);
});

it('nothing is left behind', () => {
  expect(everything()).toEqual(before);
});
