// How well a trained model expects a text: the loss of each token, the perplexity of the whole, the least expected words.
//   node --import tsx examples/perplexity.ts RUN FILE
import { readFileSync } from 'node:fs';
import { createModel, Device, decode, encode, Gpt2Error, lossesOf, resolveWeights, selectDevice } from 'gpt2.ts';

// An error of the options or the files is one line, without a stack.
process.once('uncaughtException', (error) => {
  console.error(error instanceof Gpt2Error || 'code' in error ? error.message : error);
  process.exit(1);
});

const [run, file] = process.argv.slice(2);
if (run === undefined || file === undefined) stop('usage: perplexity.ts RUN FILE');
const weights = await resolveWeights(run);
const { model: config } = weights;
const tokenizer = weights.tokenizer ?? stop(`${run} was trained on tokens that are no text: name another run`);
const text = encode(readFileSync(file, 'utf8'), tokenizer);
if (text.length === 0) stop(`${file} is empty: name a file of text`);
const tokens = [tokenizer.start, ...text].slice(0, config.context + 1);
const left = text.length + 1 - tokens.length;
if (left > 0) console.error(`the last ${left} tokens are left out: the model's context is ${config.context}`);

using device = Device.open(selectDevice('auto'));
const model = createModel(device, config, { B: 1, T: tokens.length - 1, purpose: 'inference' });
weights.load(model);
const losses = await lossesOf(model, tokens);

const mean = losses.reduce((sum, loss) => sum + loss, 0) / losses.length;
console.log(`${losses.length} tokens: loss ${mean.toFixed(4)}, perplexity ${Math.exp(mean).toFixed(1)}`);
const unexpected = [...losses.entries()].sort(([, a], [, b]) => b - a).slice(0, 5);
for (const [index, loss] of unexpected)
  console.log(`${loss.toFixed(2)}  ${JSON.stringify(decode([tokens[index + 1]!], tokenizer))}`);

function stop(message: string): never {
  console.error(message);
  process.exit(1);
}
