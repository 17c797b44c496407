// `sample`: text from a trained model, streamed to stdout; everything else it says goes to stderr.
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { Command } from 'commander';
import { Gpt2Error } from '../errors.ts';
import {
  createModel,
  Device,
  encode,
  generate,
  listCheckpoints,
  resolveWeights,
  StreamDecoder,
  selectDevice,
  tokenizerOf,
} from '../index.ts';
import { strictNumber } from './strict-number.ts';

const examples = `
Examples:
  npm run sample                                        from the newest run in runs/
  npm run sample -- --model runs/d6 --prompt "ROMEO:" --tokens 200 --temperature 0.8
  npm run sample -- --model runs/d6/checkpoints/step-00000400 --top-k 40 --seed 7
`;

interface Flags {
  readonly model?: string;
  readonly prompt: string;
  readonly tokens: number;
  readonly temperature: number;
  readonly topK: number;
  readonly topP: number;
  readonly seed: number;
  readonly device: string;
  readonly threads: number;
}

export function sampleCommand(): Command {
  return new Command('sample')
    .description('Text from a trained model')
    .option('--model <PATH>', "a run, a checkpoint, or llm.c's model .bin (default: the newest run in runs/)")
    .option('--prompt <TEXT>', 'text to go on from', '')
    .option('--tokens <N>', 'most tokens to make', strictNumber('--tokens', 1, 1_000_000, 'whole'), 128)
    .option('--temperature <X>', '0: always the likeliest token', strictNumber('--temperature', 0, 100, 'any'), 0.8)
    .option('--top-k <N>', 'only the N likeliest tokens; 0: all', strictNumber('--top-k', 0, 65536, 'whole'), 0)
    .option(
      '--top-p <X>',
      'only the likeliest tokens of this probability together',
      strictNumber('--top-p', 0, 1, 'any'),
      1,
    )
    .option('--seed <N>', 'of the choices', strictNumber('--seed', 0, 2 ** 32 - 1, 'whole'), 42)
    .option('--device <NAME>', 'auto, cuda, cuda:N, cpu', 'auto')
    .option('--threads <N>', 'CPU threads; 0: all cores', strictNumber('--threads', 0, 1024, 'whole'), 0)
    .addHelpText('after', examples)
    .action(sample);
}

async function sample(flags: Flags): Promise<void> {
  const notice = (text: string) => process.stderr.write(`${text}\n`);
  const target = selectDevice(flags.device);
  const weights = resolveWeights(flags.model ?? newestRun());
  for (const { reason } of weights.damaged) notice(`skipped a damaged checkpoint: ${reason}`);
  notice(`from ${weights.path}`);
  const { model: config } = weights;
  const tokenizer = tokenizerOf(config);
  if (!tokenizer) {
    throw new Gpt2Error(
      `${weights.path} has a vocabulary of ${config.vocabularySize} tokens, which is no tokenizer's: it has no text to give`,
    );
  }
  using device = Device.open({ ...target, threads: flags.threads });
  const model = createModel(device, config, { B: 1, T: config.context, purpose: 'inference' });
  weights.load(model);

  const decoder = new StreamDecoder(tokenizer);
  // Every document of the training data begins with the end of the one before.
  const prompt = [tokenizer.endOfText, ...encode(flags.prompt, tokenizer)];
  const generation = generate(model, { ...flags, prompt, stopAt: tokenizer.endOfText });
  let next = await generation.next();
  process.stdout.write(flags.prompt);
  for (; !next.done; next = await generation.next()) process.stdout.write(decoder.push(next.value));
  process.stdout.write(`${decoder.end()}\n`);
  if (next.value === 'diverged') {
    throw new Gpt2Error(`${weights.path} gives no text: its weights have diverged; sample an earlier checkpoint`);
  }
}

/** The run in runs/ that saved last. @throws Gpt2Error if none has a checkpoint */
function newestRun(): string {
  let newest: { run: string; saved: number } | undefined;
  for (const name of namesOf('runs')) {
    const run = join('runs', name);
    const checkpoints = join(run, 'checkpoints');
    if (listCheckpoints(checkpoints).length === 0) continue;
    const saved = statSync(checkpoints).mtimeMs;
    if (!newest || saved > newest.saved) newest = { run, saved };
  }
  if (newest) return newest.run;
  throw new Gpt2Error(
    'there is no trained model in runs/: run `npm run train -- --steps 100`, or name one with --model',
  );
}

function namesOf(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw new Gpt2Error(`${folder}/ cannot be listed: ${(cause as Error).message}`, { cause });
  }
}
