// The command `eval`: the loss of a trained model on any data set, and its HellaSwag score. Results go to stdout, notices to stderr.
import { existsSync } from 'node:fs';
import { Command, Option } from 'commander';
import {
  createModel,
  Device,
  type Evaluation,
  evaluate,
  findShards,
  type HellaswagScore,
  placeFromEnvironment,
  type Role,
  readDataset,
  readDatasetTokenizer,
  readHellaswag,
  resolveWeights,
  scoreHellaswag,
  selectDevice,
  type TrainOptions,
  useCards,
  type Weights,
  weightsHash,
} from '../index.ts';
import {
  agree,
  cardHashes,
  checkInferenceMemory,
  checkSequence,
  chooseInferenceBatch,
  formatCount,
  gpt2Error,
  inferenceDtype,
  isRoot,
  launchRanks,
  loadFolders,
  modelOrNewest,
  optionTable,
  positionsOf,
  Ranks,
  refuseOtherTokenizer,
  refuseRanks,
  selectKind,
  stopWithLauncher,
  threadsOf,
  usageError,
} from '../program.ts';
import { count, knownAs, type Lists, modelOption, type Numbers, numberOption, tableOption } from './option-of-table.ts';
import { jsonLine, notice as tell } from './output.ts';
import { clearStatus, isLive, showShare, withProgress } from './progress.ts';

const examples = `
Examples:
  npm run eval                                                the newest run in runs/
  npm run eval -- --model runs/d6                             on the whole validation set of its run
  npm run eval -- --model runs/d6 --data data/own-source      on other text: compare bits per byte
  npm run eval -- --model gpt2_124M.bin --data data/tinyshakespeare --seq 1024
  npm run eval -- --model openai-community/gpt2 --data data/tinyshakespeare
  npm run eval -- --model runs/d12 --hellaswag data/hellaswag/hellaswag_val.bin

The loss is the mean over whole sequences of --seq tokens, in nats per token, as in a run's validation; after ± stands its
standard error over the sequences. Neither depends on --batch or --gpus. Bits per byte count the bytes of the predicted tokens'
text, so they compare models with different tokenizers; the end of a text has no bytes. An untied head's losses, HellaSwag's too,
count the rows that pad the vocabulary to a multiple of 128 (docs/recipe.md).
HellaSwag: acc is the share of questions whose right completion has the smallest summed loss, acc_norm the smallest mean loss.
`;

type Flags = TrainOptions & Numbers<'seq' | 'gpus'> & Lists<'kernel'> & { readonly role: Role };

const batchHelp = 'sequences in a batch; auto: as many as fit';
const tokensHelp = 'tokens to predict, as whole sequences spread evenly over the set';

export function evalCommand(): Command {
  const asRun = (otherwise: string) => `the model's own run's, else ${otherwise}`;
  const dataHelp = `folder of token shards (default: ${asRun(optionTable.data.default)})`;
  return new Command('eval')
    .description('Evaluate a trained model')
    .addOption(modelOption(['out-dir']))
    .addOption(knownAs(new Option('--data <DIR>', dataHelp), ['text', 'dataset']))
    .addOption(
      knownAs(new Option('--role <ROLE>', 'shards to use').choices(['val', 'train']).default('val'), ['split']),
    )
    .option('--hellaswag <FILE>', "multiple-choice questions in llm.c's format; alone without --data")
    .addOption(tableOption('batch', { help: batchHelp, default: { text: asRun('4') } }))
    .addOption(numberOption('--seq <T>', `tokens in a sequence (default: ${asRun("the model's context")})`, count))
    .addOption(
      tableOption('tokens', { help: tokensHelp, default: { text: 'all' }, elsewhere: ['steps', 'eval-iters'] }),
    )
    .addOption(tableOption('maxMemory'))
    .addOption(tableOption('device'))
    .addOption(tableOption('dtype', { default: { text: 'bf16 on CUDA, fp32 on CPU; with AMX bf16 if trained so' } }))
    .addOption(tableOption('threads'))
    .addOption(tableOption('kernels'))
    .addOption(numberOption('--gpus <N>', 'GPUs of this machine that share the work (default: 1)', count))
    .option('--json', 'print the figures as JSON')
    .addHelpText('after', examples)
    .action((flags: Flags) => evaluateOnAll(flags));
}

/** Evaluates in this process, or on several GPUs with a process (rank) each. @throws Gpt2Error for a loss that is NaN or infinite */
async function evaluateOnAll(flags: Flags): Promise<void> {
  const place = placeFromEnvironment();
  const { device, batch, tokens, role, data, hellaswag } = flags;
  const ofData = tokens !== undefined ? `--tokens ${tokens}` : role === 'train' ? '--role train' : undefined;
  if (ofData && hellaswag !== undefined && data === undefined)
    throw usageError`${ofData} has no effect on --hellaswag alone; give --data too`;
  const ranks = place?.ranks ?? flags.gpus ?? 1;
  refuseRanks({ ranks, device, batch }, selectKind(device ?? 'auto'));
  if (!place && ranks > 1) return launchRanks(ranks);
  if (place) stopWithLauncher();
  const evaluated = (ranks?: Ranks) => evaluateModel(flags, ranks);
  const found = await (place ? Ranks.together(place, tell, evaluated) : evaluated());
  if (!found || Number.isFinite(found.loss)) return;
  const { loss } = found;
  throw gpt2Error`the loss of ${found.model} on ${found.data} is ${loss}: the model diverged or is damaged; name another --model, or train again with a smaller --lr`;
}

/** Evaluates the model in one process. Of several ranks, only rank 0 prints. @returns the loss; undefined for HellaSwag alone */
async function evaluateModel(flags: Flags, ranks?: Ranks) {
  const isHeard = isRoot(ranks);
  const notice = isHeard ? tell : () => {};
  const target = selectDevice(flags.device ?? 'auto', ranks?.place.gpu);
  const open = () => openInputs(flags, isHeard, notice);
  const { weights, sequence, data, hellaswag } = await (ranks ? ranks.afterRoot(open) : open());
  const { model: config, configuration = {} } = weights;
  const { maxMemory, role, tokens } = flags;
  const cards = await loadFolders(flags.kernel);
  const dtype = flags.dtype ?? inferenceDtype(target.kind, configuration.dtype);
  using device = Device.open({ ...target, dtype, threads: threadsOf(flags.threads ?? 0, ranks?.place) });
  await useCards(device, cards);
  const asked = flags.batch ?? size(configuration.batch) ?? 4;
  const batch = asked === 'auto' ? chooseInferenceBatch(device, config, { T: sequence, maxMemory, cards }) : asked;
  if (asked === 'auto') notice(`--batch auto is --batch ${batch} here`);
  checkInferenceMemory(device, config, { B: batch, T: sequence, maxMemory, cards });
  const sizes = { batch, sequence };
  const model = createModel(device, config, { B: batch, T: sequence, purpose: 'inference' });
  weights.load(model);
  const { library, codePath } = device.description;
  if (ranks) {
    const hashes = { cards: cardHashes(cards), weights: await weightsHash(model) };
    await agree(ranks, { ...sizes, dtype, codePath, role, tokens, ...hashes });
  }
  const on = `${ranks ? `${ranks.count} x ` : ''}${library} ${codePath} ${dtype}`;
  notice(`${weights.path} on ${on}`);

  const progress = () => (isHeard && isLive ? showShare() : undefined);
  const print = (text: string) => {
    if (isHeard && isLive) clearStatus();
    if (isHeard && !flags.json) process.stdout.write(text);
  };
  const begun = performance.now();
  const results: object[] = [{ model: weights.path, device: on }];
  let loss: { loss: number; model: string; data: string } | undefined;
  if (data) {
    const { shards, tokenizer, folder } = data;
    const options = { ...sizes, shards, tokenizer, tokens, notice, progress: progress(), ranks };
    const evaluation = await evaluate(model, options);
    loss = { loss: evaluation.loss, model: weights.path, data: folder };
    results.push({ data: folder, role, ...evaluation });
    if (Number.isFinite(evaluation.loss)) print(lossLines(folder, role, evaluation, performance.now() - begun));
  }
  if (hellaswag) {
    const score = await scoreHellaswag(model, hellaswag, { ...sizes, progress: progress(), ranks });
    results.push({ hellaswag: hellaswag.path, ...score, cut: hellaswag.cut });
    print(hellaswagLine(hellaswag.path, score));
  }
  const seconds = (performance.now() - begun) / 1000;
  if (isHeard && flags.json) process.stdout.write(jsonLine(Object.assign({}, ...results, { seconds })));
  return loss;
}

/** Reads the model, the data and the questions before the device is opened, so that bad files are reported at once. */
async function openInputs(flags: Flags, isHeard: boolean, notice: (text: string) => void) {
  const name = modelOrNewest(flags.model);
  const weights = await (isHeard ? withProgress((shown) => resolveWeights(name, shown)) : resolveWeights(name));
  for (const { reason } of weights.damaged) notice(`skipped a checkpoint: ${reason}`);
  const { model: config, configuration = {}, tokenizer } = weights;
  const sequence = flags.seq ?? Math.min(size(configuration.sequence) ?? config.context, config.context);
  checkSequence(sequence, config);
  const trained = positionsOf(weights);
  if (sequence > trained) notice(`--seq ${sequence}: the run trained only the first ${trained} positions`);
  const sizes = { sequence, vocabularySize: config.vocabularySize, tokenizer };
  const hellaswag = flags.hellaswag === undefined ? undefined : readHellaswag(flags.hellaswag, sizes);
  const data = hellaswag && flags.data === undefined ? undefined : openData(flags, weights);
  if (hellaswag && hellaswag.cut > 0) {
    const which = `${hellaswag.cut} of ${hellaswag.rows.length} rows`;
    notice(`${which} are longer than --seq ${sequence}: the beginnings of their contexts are cut off`);
  }
  return { weights, sequence, data, hellaswag };
}

/** The shards to evaluate on. @throws Gpt2Error if the data has none, or if its tokenizer is not the model's */
function openData(flags: Flags, weights: Weights) {
  const data = flags.data ?? folder(weights.configuration?.data) ?? optionTable.data.default;
  const shards = findShards(data, flags.role);
  const dataset = readDataset(data);
  refuseOtherTokenizer(weights, data, dataset);
  return { folder: data, shards, tokenizer: readDatasetTokenizer(data, dataset) };
}

function lossLines(data: string, role: Role, evaluation: Evaluation, milliseconds: number): string {
  const { loss, standardError, perplexity, bitsPerByte, tokens, bytes, sequences, batch, sequence } = evaluation;
  const figures = [
    `loss ${loss.toFixed(4)}${standardError === undefined ? '' : ` ± ${standardError.toFixed(4)}`}`,
    `perplexity ${perplexity.toPrecision(5)}`,
    ...(bitsPerByte === undefined ? [] : [`bits per byte ${bitsPerByte.toFixed(4)}`]),
    `${formatCount(tokens)} tokens`,
    ...(bytes === undefined ? [] : [`${formatCount(bytes)} bytes`]),
  ];
  const rate = Math.round((tokens / milliseconds) * 1000);
  const all = `${formatCount(sequences)} ${sequences === 1 ? 'sequence' : 'sequences'} of ${sequence}, ${batch} at a time`;
  return `${data} ${role}: ${figures.join('   ')}\n${all}, ${formatCount(rate)} tokens/s\n`;
}

function hellaswagLine(path: string, { acc, accNorm, correct, correctNorm, questions }: HellaswagScore): string {
  return `${path}: acc ${acc.toFixed(4)} (${correct} of ${questions})   acc_norm ${accNorm.toFixed(4)} (${correctNorm})\n`;
}

// A size or folder from the configuration in a checkpoint's manifest. Nothing validates the manifest, so `value` may be any JSON value.
const size = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isSafeInteger(value) && value > 0 ? value : undefined;
const folder = (value: unknown): string | undefined =>
  typeof value === 'string' && existsSync(value) ? value : undefined;
