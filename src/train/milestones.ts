// What a run tells besides its steps: a sample of text, the closing event.
import { weightsHash } from '../checkpoint/weights-hash.ts';
import type { RunEvent } from '../runs/schema.ts';
import { generate } from '../sample/generate.ts';
import { decode, endOfText } from '../tokenizer/tokenizer.ts';
import type { Run } from './run.ts';

/** Tokens in a sample taken while training. */
const sampleTokens = 64;

/** A text from nothing; the same for the same weights, seed and step. */
export async function sampleText({ model, options }: Run, step: number): Promise<string> {
  const tokens: number[] = [];
  const generation = {
    prompt: [endOfText],
    tokens: sampleTokens,
    window: options.sequence,
    seed: options.seed + step,
    stopAt: endOfText,
  };
  for await (const token of generate(model, generation)) tokens.push(token);
  return decode(tokens);
}

/** The event that closes a finished run. `skipped`: updates that --skip-spikes left out. */
export function doneEvent(
  { steps, model }: Run,
  { seconds, skipped }: { seconds: number; skipped: number | undefined },
): RunEvent {
  return { event: 'done', steps, seconds, weights: weightsHash(model), ...(skipped === undefined ? {} : { skipped }) };
}
