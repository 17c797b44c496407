// The command `sample`: generates texts with a trained model and streams them to stdout; notices go to stderr.
import { buffer } from 'node:stream/consumers';
import { Command, Option } from 'commander';
import {
  createModel,
  Device,
  type GenerateOptions,
  generate,
  KeyValueCache,
  resolveWeights,
  StreamDecoder,
  selectDevice,
  type TrainOptions,
} from '../index.ts';
import {
  decodeUtf8,
  describeCut,
  fittingTexts,
  formatCount,
  generationRows,
  gpt2Error,
  inferenceDtype,
  modelOrNewest,
  positionsOf,
  promptIds,
  real,
  usageError,
  whole,
} from '../program.ts';
import {
  knownAs,
  modelOption,
  type Numbers,
  numberOption,
  type Switches,
  share,
  type Texts,
  tableOption,
} from './option-of-table.ts';
import { notice } from './output.ts';
import { withProgress } from './progress.ts';
import { interact, type Write } from './sample-interactive.ts';
import { type PrintFlags, startPage } from './sample-page.ts';

const examples = `
Examples:
  npm run sample                                        from the newest run in runs/
  npm run sample -- --model runs/d6 --prompt "ROMEO:" --tokens 200 --temperature 0.8
  npm run sample -- --model openai-community/gpt2 --prompt "In a shocking finding,"
                                                        GPT-2 as published, downloaded once
  npm run sample -- --model runs/d6/checkpoints/step-00000400 --top-k 40 --count 4 --seed 7
  npm run --silent sample -- --model runs/d6 --prompt - --json < prompts.txt > texts.jsonl
  npm run sample -- -i                                  type a prompt, read its text, type the next one

Several texts are generated together and printed one after the other, with a line of --- between them.
With -i the model stays loaded and each line of standard input is a prompt; an empty line continues the text. In a terminal
Ctrl-C stops a text; Ctrl-D, or Ctrl-C at the prompt, ends the program.
`;

type Choice = Omit<GenerateOptions, 'prompts' | 'firstText' | 'stopAt'>;
type Asked = Required<Texts<'prompt'> & Numbers<'count'>> & Switches<'interactive'>;
type Flags = TrainOptions & Choice & Asked & PrintFlags;

/** Most texts generated together. On a CPU 8, because a matmul handles 8 rows in one pass over the weights. */
const mostTexts = { cuda: 32, cpu: 8 };

export function sampleCommand(): Command {
  const prompt = new Option('--prompt <TEXT>', 'text to continue, after end of text; -: one prompt per line of stdin');
  const count = numberOption('--count <N>', 'texts per prompt', whole(1, 100_000), 1);
  const tokens = numberOption('--tokens <N>', 'maximum new tokens per text', whole(1, 1_000_000), 128);
  const temperature = numberOption('--temperature <X>', '0: always the likeliest token', real(0, 100), 0.8);
  const seedHelp = 'random seed; a text also depends on the others of its batch';
  const whenFullHelp = 'when the window is full: slide forgets the older half of a text, stop ends it';
  const whenFull = new Option('--when-full <WHAT>', whenFullHelp);
  return new Command('sample')
    .description('Generate texts with a trained model')
    .addOption(modelOption(['out-dir']))
    .addOption(knownAs(prompt.default(''), ['start']))
    .option('-i, --interactive', 'read prompts one by one and keep the model loaded')
    .addOption(knownAs(count, ['num-samples', 'num-return-sequences']))
    .addOption(knownAs(tokens, ['max-new-tokens', 'max-length']))
    .addOption(knownAs(temperature, ['temp']))
    .addOption(numberOption('--top-k <N>', 'choose among the N likeliest tokens; 0: all', whole(0, 65536), 0))
    .addOption(numberOption('--top-p <X>', 'nucleus sampling: the fewest tokens with this total probability', share, 1))
    .addOption(numberOption('--seed <N>', seedHelp, whole(0, 2 ** 32 - 1), 42))
    .addOption(whenFull.choices(['slide', 'stop']).default('slide'))
    .option('--no-stream', 'print each text when it is complete')
    .option('--json', 'print a JSON line per text: prompt, text, tokens, end')
    .addOption(tableOption('device'))
    .addOption(tableOption('dtype', { default: { text: 'bf16 on CUDA, fp32 on CPU; with AMX bf16 if trained so' } }))
    .addOption(tableOption('threads'))
    .addHelpText('after', examples)
    .action(sample);
}

async function sample(flags: Flags): Promise<void> {
  if (flags.interactive && (flags.prompt !== '' || flags.count > 1)) {
    throw usageError`--interactive reads its prompts line by line: leave out --prompt and --count`;
  }
  if (flags.dtype === 'fp8') {
    throw usageError`--dtype fp8 has no effect on sample, which decodes in bf16 on a GPU, in bf16 or fp32 on a CPU: leave it out`;
  }
  const target = selectDevice(flags.device ?? 'auto');
  const weights = await withProgress((shown) => resolveWeights(modelOrNewest(flags.model), shown));
  for (const { reason } of weights.damaged) notice(`skipped a checkpoint: ${reason}`);
  notice(`from ${weights.path}`);
  const { model: config, tokenizer } = weights;
  if (!tokenizer) {
    throw gpt2Error`${weights.path} has a vocabulary of ${config.vocabularySize} tokens, which no known tokenizer has, so its tokens cannot be decoded: name another model with --model`;
  }
  const lines = flags.prompt === '-' ? await linesOfInput() : [flags.prompt];
  const prompts = lines.flatMap((prompt) => Array<string>(flags.count).fill(prompt));

  const dtype = flags.dtype ?? inferenceDtype(target.kind, weights.configuration?.dtype);
  using device = Device.open({ ...target, dtype, threads: flags.threads });
  const window = positionsOf(weights);
  if (window < config.context)
    notice(`texts have a window of ${window} tokens: the run trained no later position (--seq)`);
  const texts = fittingTexts(device, config, { texts: Math.min(prompts.length, mostTexts[target.kind]), window });
  if (texts < prompts.length) notice(`${prompts.length} texts, ${texts} at a time`);
  const model = createModel(device, config, { ...generationRows({ texts, window }), purpose: 'inference' });
  weights.load(model);
  const cache = new KeyValueCache(model, { texts, window });

  const { tokens, seed, temperature, topK, topP, whenFull } = flags;
  const choice = { tokens, seed, temperature, topK, topP, whenFull };
  const write: Write = async (page, starts, firstText, isStopped) => {
    const stopAt = tokenizer.endOfText;
    for await (const next of generate(cache, { ...choice, prompts: starts, firstText, stopAt })) {
      if ('token' in next) {
        page.add(next.text, next.token);
        if (isStopped?.()) return page.end(next.text, 'stopped');
      } else {
        if (next.end === 'diverged') {
          throw gpt2Error`the weights of ${weights.path} have diverged: name an earlier checkpoint with --model`;
        }
        page.end(next.text, next.end);
      }
    }
  };
  if (flags.interactive) return await interact({ tokenizer, window }, flags, write);

  const begun = performance.now();
  let made = 0;
  for (let first = 0; first < prompts.length; first += texts) {
    const together = prompts.slice(first, first + texts);
    const starts = together.map((prompt) => promptIds(prompt, tokenizer));
    for (const cut of new Set(starts.map((ids) => describeCut(ids, window)))) if (cut !== undefined) notice(cut);
    const decoders = starts.map((ids) => new StreamDecoder(tokenizer, ids));
    const page = startPage(together, decoders, { ...flags, isLast: first + texts >= prompts.length });
    await write(page, starts, first);
    made += page.texts.reduce((sum, { ids }) => sum + ids.length, 0);
  }
  const seconds = (performance.now() - begun) / 1000;
  const rate = formatCount(Math.round(made / seconds));
  notice(`${formatCount(made)} ${made === 1 ? 'token' : 'tokens'} in ${seconds.toFixed(2)} s, ${rate} tokens/s`);
}

/** The lines of stdin, a prompt each. @throws Gpt2Error if stdin is empty, is not UTF-8 or cannot be read */
async function linesOfInput(): Promise<string[]> {
  const input = await buffer(process.stdin)
    .then(decodeUtf8)
    .catch((cause) => {
      throw gpt2Error`standard input cannot be read: ${cause}; give the text with --prompt TEXT`;
    });
  const lines = input.split(/\r?\n/);
  if (lines.at(-1) === '') lines.pop();
  if (lines.length === 0) throw gpt2Error`standard input has no prompt: write one on each line`;
  return lines;
}
