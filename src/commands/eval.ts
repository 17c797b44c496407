// `eval`: how good a trained model is, on any data set. The figures go to stdout, what is said besides to stderr.
import { existsSync } from 'node:fs';
import { Command, Option } from 'commander';
import {
  createModel,
  Device,
  type Dtype,
  evaluate,
  findShards,
  optionTable,
  type Role,
  readDataset,
  readOption,
  refuseOtherVocabulary,
  resolveWeights,
  selectDevice,
} from '../index.ts';
import { number } from './number.ts';

const examples = `
Examples:
  npm run eval -- --model runs/d6                             on the validation set of its own data, all of it
  npm run eval -- --model runs/d6 --data data/own-source      on other text: compare bits per byte
  npm run eval -- --model gpt2_124M.bin --data data/tinyshakespeare --seq 1024

The loss is the mean over every whole batch, in nats a token, as a run's own validation has it. Bits per byte are counted over
the text of the predicted tokens, so that they compare models of any tokenizer; the end of a text has no bytes.
`;

interface Flags {
  readonly model: string;
  readonly data?: string;
  readonly role: Role;
  readonly batch?: number;
  readonly seq?: number;
  readonly steps?: number;
  readonly device: string;
  readonly dtype?: Dtype;
  readonly threads?: number;
  readonly json?: boolean;
}

export function evalCommand(): Command {
  const fromTable = (name: 'device' | 'dtype' | 'threads') => {
    const row = optionTable[name];
    const shown = 'default' in row ? row.default : row.defaultText;
    return new Option(`${row.flag} <${row.argument}>`, `${row.help} (default: ${shown})`).argParser((text) =>
      readOption(name, text),
    );
  };
  const ofRun = (otherwise: string) => `(default: as the run that made the model, else ${otherwise})`;
  return new Command('eval')
    .description('Evaluate a trained model')
    .requiredOption('--model <PATH>', "a run, a checkpoint, or llm.c's model .bin")
    .option('--data <DIR>', `folder of token shards ${ofRun(optionTable.data.default)}`)
    .addOption(new Option('--role <ROLE>', 'which of its shards').choices(['val', 'train']).default('val'))
    .option('--batch <B>', `sequences in a batch ${ofRun('4')}`, number('--batch', 1, 65536, 'whole'))
    .option('--seq <T>', `tokens in a sequence ${ofRun("the model's context")}`, number('--seq', 1, 65536, 'whole'))
    .option('--steps <N>', 'batches (default: every whole one)', number('--steps', 1, Number.MAX_SAFE_INTEGER, 'whole'))
    .addOption(fromTable('device'))
    .addOption(fromTable('dtype'))
    .addOption(fromTable('threads'))
    .option('--json', 'the figures as JSON on stdout')
    .addHelpText('after', examples)
    .action((flags) => evaluateModel(flags as unknown as Flags));
}

async function evaluateModel(flags: Flags): Promise<void> {
  const notice = (text: string) => process.stderr.write(`${text}\n`);
  const target = selectDevice(flags.device ?? 'auto');
  const weights = resolveWeights(flags.model);
  for (const { reason } of weights.damaged) notice(`skipped a damaged checkpoint: ${reason}`);
  const { model: config, configuration = {} } = weights;
  const data = flags.data ?? folder(configuration.data) ?? optionTable.data.default;
  const batch = flags.batch ?? size(configuration.batch) ?? 4;
  const sequence = flags.seq ?? Math.min(size(configuration.sequence) ?? config.context, config.context);
  const shards = findShards(data, flags.role);
  const dataset = readDataset(data);
  refuseOtherVocabulary(weights, data, dataset);

  const dtype = flags.dtype ?? (target.kind === 'cuda' ? 'bf16' : 'fp32');
  using device = Device.open({ ...target, dtype, threads: flags.threads });
  const T = Math.min(sequence, config.context);
  const model = createModel(device, config, { B: batch, T, purpose: 'inference' });
  weights.load(model);
  const { library, codePath } = device.description;
  notice(`${weights.path} on ${library} ${codePath} ${dtype}`);

  const started = performance.now();
  const { loss, perplexity, bitsPerByte, tokens, bytes, batches, ...sizes } = await evaluate(model, {
    ...{ shards, batch, sequence, batches: flags.steps, notice },
    tokenizer: dataset?.tokenizer ?? 'gpt2',
  });
  const seconds = (performance.now() - started) / 1000;
  if (flags.json) {
    const figures = { loss, perplexity, bitsPerByte, tokens, bytes, batches, ...sizes, seconds };
    const settings = { model: weights.path, device: `${library} ${codePath} ${dtype}`, data, role: flags.role };
    process.stdout.write(`${toJson({ ...settings, ...figures })}\n`);
    return;
  }
  const lines = [
    `${data} ${flags.role}: loss ${loss.toFixed(4)}   perplexity ${perplexity.toPrecision(5)}   ${
      bitsPerByte === undefined ? '' : `bits per byte ${bitsPerByte.toFixed(4)}   `
    }${tokens.toLocaleString('en-US')} tokens`,
    `${batches} batches of ${sizes.batch} x ${sizes.sequence}, ${Math.round(tokens / seconds).toLocaleString('en-US')} tokens/s`,
  ];
  process.stdout.write(`${lines.join('\n')}\n`);
}

// Of the configuration that made the model: a manifest can hold anything.
const size = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isSafeInteger(value) && value > 0 ? value : undefined;
const folder = (value: unknown): string | undefined =>
  typeof value === 'string' && existsSync(value) ? value : undefined;

/** Numbers that JSON has no word for as "NaN", "Infinity", as a run log has them. */
const toJson = (value: object): string =>
  JSON.stringify(value, (_, each) => (typeof each === 'number' && !Number.isFinite(each) ? String(each) : each));
