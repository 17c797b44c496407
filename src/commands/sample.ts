// The command `sample`: generates texts with a trained model and streams them to stdout; notices go to stderr.
import { Command, Option } from 'commander';
import {
  createModel,
  Device,
  type Dtype,
  encode,
  type GenerateOptions,
  type GenerationEnd,
  Gpt2Error,
  generate,
  KeyValueCache,
  resolveWeights,
  StreamDecoder,
  selectDevice,
  type Tokenizer,
  tokenizerOf,
} from '../index.ts';
import { fittingTexts, generationRows, modelPaths, newestModel } from '../program.ts';
import { numberOption, share } from './number-option.ts';
import { tableOption } from './option-of-table.ts';
import { notice } from './output.ts';

const examples = `
Examples:
  npm run sample                                        from the newest run in runs/
  npm run sample -- --model runs/d6 --prompt "ROMEO:" --tokens 200 --temperature 0.8
  npm run sample -- --model runs/d6/checkpoints/step-00000400 --top-k 40 --count 4 --seed 7
  npm run --silent sample -- --model runs/d6 --prompt - --json < prompts.txt > texts.jsonl

Several texts are generated together and printed one after the other, with a line of --- between them.
`;

interface Flags extends Omit<GenerateOptions, 'prompts' | 'firstText' | 'stopAt'> {
  readonly model?: string;
  readonly prompt: string;
  readonly count: number;
  readonly stream: boolean;
  readonly json?: boolean;
  readonly device?: string;
  readonly dtype?: Dtype;
  readonly threads?: number;
}

/** Texts generated together. On the CPU as many as one matmul handles while it reads each weight once. */
const mostTexts = { cuda: 32, cpu: 8 };

export function sampleCommand(): Command {
  return new Command('sample')
    .description('Generate texts with a trained model')
    .option('--model <PATH>', `${modelPaths} (default: the newest run in runs/)`)
    .option('--prompt <TEXT>', 'text to continue; -: one prompt per line of standard input', '')
    .addOption(numberOption('--count <N>', 'texts per prompt', { least: 1, most: 100_000 }, 1))
    .addOption(numberOption('--tokens <N>', 'maximum new tokens per text', { least: 1, most: 1_000_000 }, 128))
    .addOption(
      numberOption('--temperature <X>', '0: always the likeliest token', { kind: 'any', least: 0, most: 100 }, 0.8),
    )
    .addOption(numberOption('--top-k <N>', 'choose among the N likeliest tokens; 0: all', { least: 0, most: 65536 }, 0))
    .addOption(numberOption('--top-p <X>', 'nucleus sampling: the fewest tokens with this total probability', share, 1))
    .addOption(
      numberOption(
        '--seed <N>',
        'random seed; a text also depends on the others of its batch',
        { least: 0, most: 2 ** 32 - 1 },
        42,
      ),
    )
    .addOption(
      new Option('--when-full <WHAT>', "at the model's context: slide forgets the older half of a text, stop ends it")
        .choices(['slide', 'stop'])
        .default('slide'),
    )
    .option('--no-stream', 'print each text when it is complete')
    .option('--json', 'print a JSON line per text: prompt, text, tokens, end')
    .addOption(tableOption('device'))
    .addOption(tableOption('dtype'))
    .addOption(tableOption('threads'))
    .addHelpText('after', examples)
    .action((flags) => sample(flags as unknown as Flags));
}

async function sample(flags: Flags): Promise<void> {
  const target = selectDevice(flags.device ?? 'auto');
  const weights = resolveWeights(flags.model ?? newestModel());
  for (const { reason } of weights.damaged) notice(`skipped a damaged checkpoint: ${reason}`);
  notice(`from ${weights.path}`);
  const { model: config } = weights;
  const tokenizer = tokenizerOf(config);
  if (!tokenizer) {
    throw new Gpt2Error(
      `${weights.path} has a vocabulary of ${config.vocabularySize} tokens, which no known tokenizer has, so its tokens cannot be decoded: name another model with --model`,
    );
  }
  const given = flags.prompt === '-' ? await linesOfInput() : [flags.prompt];
  const prompts = given.flatMap((prompt) => Array<string>(flags.count).fill(prompt));

  const dtype = flags.dtype ?? (target.kind === 'cuda' ? 'bf16' : 'fp32');
  using device = Device.open({ ...target, dtype, threads: flags.threads });
  const window = config.context;
  const texts = fittingTexts(device, config, { texts: Math.min(prompts.length, mostTexts[target.kind]), window });
  if (texts < prompts.length) notice(`${prompts.length} texts, ${texts} at a time`);
  const model = createModel(device, config, { ...generationRows({ texts, window }), purpose: 'inference' });
  weights.load(model);
  const cache = new KeyValueCache(model, { texts, window });

  const begun = performance.now();
  const { tokens, seed, temperature, topK, topP, whenFull } = flags;
  const choice = { tokens, seed, temperature, topK, topP, whenFull };
  let made = 0;
  for (let first = 0; first < prompts.length; first += texts) {
    const together = prompts.slice(first, first + texts);
    const page = new Page(together, tokenizer, { ...flags, isLast: first + texts >= prompts.length });
    const generation = generate(cache, {
      ...choice,
      // In the training data every document begins after an end of text.
      prompts: together.map((prompt) => [tokenizer.endOfText, ...encode(prompt, tokenizer)]),
      firstText: first,
      stopAt: tokenizer.endOfText,
    });
    for await (const next of generation) {
      if ('token' in next) {
        made++;
        page.add(next.text, next.token);
      } else {
        if (next.end === 'diverged') {
          throw new Gpt2Error(`the weights of ${weights.path} have diverged: name an earlier checkpoint with --model`);
        }
        page.end(next.text, next.end);
      }
    }
  }
  const seconds = (performance.now() - begun) / 1000;
  notice(
    `${made.toLocaleString('en-US')} ${made === 1 ? 'token' : 'tokens'} in ${seconds.toFixed(2)} s, ${Math.round(made / seconds).toLocaleString('en-US')} tokens/s`,
  );
}

/** Prints texts in order; each streams once those before it have ended. */
class Page {
  readonly #texts: {
    readonly prompt: string;
    readonly decoder: StreamDecoder;
    text: string;
    tokens: number;
    end?: GenerationEnd;
  }[];
  readonly #stream: boolean;
  readonly #json: boolean;
  readonly #isLast: boolean;
  /** The text that is being printed, and its printed length. */
  #current = 0;
  #printed = 0;

  constructor(
    prompts: readonly string[],
    tokenizer: Tokenizer,
    { stream, json = false, isLast }: { stream: boolean; json?: boolean; isLast: boolean },
  ) {
    this.#texts = prompts.map((prompt) => ({ prompt, decoder: new StreamDecoder(tokenizer), text: prompt, tokens: 0 }));
    this.#stream = stream && !json;
    this.#json = json;
    this.#isLast = isLast;
  }

  add(index: number, token: number): void {
    const text = this.#texts[index]!;
    text.text += text.decoder.push(token);
    text.tokens++;
    this.#print();
  }

  end(index: number, end: GenerationEnd): void {
    const text = this.#texts[index]!;
    text.text += text.decoder.end();
    text.end = end;
    this.#print();
  }

  #print(): void {
    for (; this.#current < this.#texts.length; this.#current++, this.#printed = 0) {
      const { prompt, text, tokens, end } = this.#texts[this.#current]!;
      if (!this.#stream && !end) return;
      if (this.#json) {
        process.stdout.write(`${JSON.stringify({ prompt, text, tokens, end })}\n`);
        continue;
      }
      process.stdout.write(text.slice(this.#printed));
      this.#printed = text.length;
      if (!end) return;
      const isLast = this.#isLast && this.#current === this.#texts.length - 1;
      process.stdout.write(isLast ? '\n' : '\n---\n');
    }
  }
}

/** @throws Gpt2Error if there is none, or it cannot be read */
async function linesOfInput(): Promise<string[]> {
  const parts: Buffer[] = [];
  try {
    for await (const part of process.stdin) parts.push(part as Buffer);
  } catch (cause) {
    throw new Gpt2Error(
      `standard input cannot be read: ${(cause as Error).message}; give the text with --prompt TEXT`,
      { cause },
    );
  }
  const lines = Buffer.concat(parts).toString('utf8').split(/\r?\n/);
  if (lines.at(-1) === '') lines.pop();
  if (lines.length === 0) throw new Gpt2Error('standard input has no prompt: write one on each line');
  return lines;
}
