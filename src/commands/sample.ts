// `sample`: text from a trained model, streamed.
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { Command } from 'commander';
import { Gpt2Error, UsageError } from '../errors.ts';
import { createModel, Device, encode, endOfText, generate, loadWeights, resolveCheckpoint, selectDevice, StreamDecoder } from '../index.ts';

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

/** Reads a number strictly. @throws UsageError */
const number = (flag: string, least: number, most: number, whole: boolean) => (text: string) => {
  const value = /^\d+(\.\d+)?$/.test(text) ? Number(text) : Number.NaN;
  if (!(value >= least && value <= most) || (whole && !Number.isSafeInteger(value))) {
    throw new UsageError(`${flag} takes a ${whole ? 'whole ' : ''}number from ${least} to ${most}, not ${JSON.stringify(text)}`);
  }
  return value;
};

export function sampleCommand(): Command {
  return new Command('sample')
    .description('Text from a trained model')
    .option('--model <DIR>', 'a run or a checkpoint (default: the newest run in runs/)')
    .option('--prompt <TEXT>', 'text to go on from', '')
    .option('--tokens <N>', 'most tokens to make', number('--tokens', 1, 1e6, true), 128)
    .option('--temperature <X>', '0: always the likeliest token', number('--temperature', 0, 100, false), 0.8)
    .option('--top-k <N>', 'only the N likeliest tokens; 0: all', number('--top-k', 0, 65536, true), 0)
    .option('--top-p <X>', 'only the likeliest tokens of this probability together', number('--top-p', 0, 1, false), 1)
    .option('--seed <N>', 'of the choices', number('--seed', 0, 2 ** 32 - 1, true), 42)
    .option('--device <NAME>', 'auto, cuda, cuda:N, cpu', 'auto')
    .option('--threads <N>', 'CPU threads; 0: all cores', number('--threads', 0, 1024, true), 0)
    .addHelpText('after', examples)
    .action(sample);
}

async function sample(flags: Flags): Promise<void> {
  const target = selectDevice(flags.device);
  const checkpoint = resolveCheckpoint(flags.model ?? newestRun());
  process.stderr.write(`${checkpoint.path}\n`);
  const { model: config } = checkpoint.manifest;
  using device = Device.open({ ...target, threads: flags.threads });
  const model = createModel(device, config, { B: 1, T: config.context, purpose: 'inference' });
  loadWeights(checkpoint, model);

  const prompt = [endOfText, ...encode(flags.prompt)];
  const outside = prompt.find((id) => id >= config.vocabularySize);
  if (outside !== undefined) throw new Gpt2Error(`the model's vocabulary of ${config.vocabularySize} has no token ${outside}`);
  const decoder = new StreamDecoder();
  process.stdout.write(flags.prompt);
  for await (const token of generate(model, { ...flags, prompt, window: config.context, stopAt: endOfText })) {
    process.stdout.write(decoder.push(token));
  }
  process.stdout.write(`${decoder.end()}\n`);
}

function newestRun(): string {
  const runs = existsSync('runs') ? readdirSync('runs').map((name) => join('runs', name)) : [];
  const trained = runs.filter((run) => existsSync(join(run, 'checkpoints')));
  const newest = trained.sort((a, b) => statSync(join(b, 'checkpoints')).mtimeMs - statSync(join(a, 'checkpoints')).mtimeMs)[0];
  if (!newest) throw new Gpt2Error('there is no trained model in runs/: run `npm run train -- --steps 100`, or name one with --model');
  return newest;
}
