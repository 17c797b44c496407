// Prints texts while they are generated: streamed one after the other, or as JSON lines.
import type { GenerationEnd, StreamDecoder } from '../index.ts';

/** Flags that decide how `sample` prints. */
export interface PrintFlags {
  readonly stream: boolean;
  readonly json?: boolean;
}

interface Text {
  readonly prompt: string;
  readonly decoder: StreamDecoder;
  readonly ids: number[];
  text: string;
  end?: GenerationEnd | 'stopped';
}

export type Page = ReturnType<typeof startPage>;

/** Prints texts in the order of `prompts`. A text streams only after the texts before it have ended. */
export function startPage(
  prompts: readonly string[],
  decoders: readonly StreamDecoder[],
  { stream, json = false, isLast, printed = 0 }: PrintFlags & { isLast: boolean; printed?: number },
) {
  const texts = prompts.map((prompt, index): Text => ({ prompt, decoder: decoders[index]!, ids: [], text: prompt }));
  /** Index of the text that is being printed; its first `printed` characters are on stdout. */
  let current = 0;
  const print = () => {
    for (; current < texts.length; current++, printed = 0) {
      const { prompt, ids, text, end } = texts[current]!;
      if ((json || !stream) && !end) return;
      if (json) {
        process.stdout.write(`${JSON.stringify({ prompt, text, tokens: ids.length, end })}\n`);
        continue;
      }
      process.stdout.write(text.slice(printed));
      printed = text.length;
      if (!end) return;
      process.stdout.write(isLast && current === texts.length - 1 ? '\n' : '\n---\n');
    }
  };
  return {
    texts,
    add(index: number, token: number): void {
      const text = texts[index]!;
      text.text += text.decoder.push(token);
      text.ids.push(token);
      print();
    },
    end(index: number, end: GenerationEnd | 'stopped'): void {
      const text = texts[index]!;
      text.text += text.decoder.end();
      text.end = end;
      print();
    },
  };
}
