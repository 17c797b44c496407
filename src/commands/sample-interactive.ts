// `sample --interactive`: reads prompts from stdin one by one and continues each, with the model loaded once.
import { createInterface } from 'node:readline';
import { Gpt2Error, StreamDecoder, type Tokenizer } from '../index.ts';
import { attempt, describeCut, promptIds } from '../program.ts';
import { notice } from './output.ts';
import { type Page, type PrintFlags, startPage } from './sample-page.ts';

/** Continues each token list in `starts`. `firstText`: number of texts written before, so that each text has another random seed. */
export type Write = (page: Page, starts: number[][], firstText: number, isStopped?: () => boolean) => Promise<void>;

/** Reads stdin line by line: a line is a new prompt, an empty line continues the previous text. */
export async function interact(
  { tokenizer, window }: { tokenizer: Tokenizer; window: number },
  flags: PrintFlags,
  write: Write,
): Promise<void> {
  const isTerminal = process.stdin.isTTY === true;
  const lines = createInterface({ input: process.stdin, output: isTerminal ? process.stderr : undefined });
  let isWriting = false;
  let isStopped = false;
  lines.on('SIGINT', () => {
    if (isWriting) isStopped = true;
    else lines.close();
  });
  const ask = () => {
    if (isTerminal) lines.prompt();
  };
  let text = '';
  let ids = promptIds(text, tokenizer);
  let index = 0;
  ask();
  for await (const line of lines) {
    const isContinued = line === '';
    if (!isContinued) {
      const start = attempt(() => promptIds(line, tokenizer));
      if (start instanceof Gpt2Error) {
        if (!isTerminal) throw start;
        notice(start.message);
        ask();
        continue;
      }
      [text, ids] = [line, start];
      const cut = describeCut(ids, window);
      if (cut !== undefined) notice(cut);
    }
    if (index > 0 && !isTerminal && !isContinued && !flags.json) process.stdout.write('---\n');
    const decoder = new StreamDecoder(tokenizer, ids);
    const page = startPage([text], [decoder], { ...flags, isLast: true, printed: isContinued ? text.length : 0 });
    [isWriting, isStopped] = [true, false];
    await write(page, [ids], index++, () => isStopped);
    isWriting = false;
    const [written] = page.texts;
    text = written!.text;
    ids.push(...written!.ids, ...(written!.end === 'stop token' ? [tokenizer.endOfText!] : []));
    ask();
  }
  if (isTerminal) notice('');
}
