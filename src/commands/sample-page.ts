// Prints texts during generation: streamed one after the other, or as JSON lines.
import type { GenerationEnd, StreamDecoder } from '../index.ts';

/** Flags that decide how `sample` prints. */
export interface PrintFlags {
  readonly stream: boolean;
  readonly json?: boolean;
}

/** Prints texts in order; each text streams once the texts before it have ended. */
export class Page {
  readonly texts: {
    readonly prompt: string;
    readonly decoder: StreamDecoder;
    readonly ids: number[];
    text: string;
    end?: GenerationEnd | 'stopped';
  }[];
  readonly #stream: boolean;
  readonly #json: boolean;
  readonly #isLast: boolean;
  /** Index of the text that is being printed, and its printed length. */
  #current = 0;
  #printed: number;

  constructor(
    prompts: readonly string[],
    decoders: readonly StreamDecoder[],
    { stream, json = false, isLast, printed = 0 }: PrintFlags & { isLast: boolean; printed?: number },
  ) {
    this.texts = prompts.map((prompt, index) => ({ prompt, decoder: decoders[index]!, ids: [], text: prompt }));
    this.#printed = printed;
    this.#stream = stream && !json;
    this.#json = json;
    this.#isLast = isLast;
  }

  add(index: number, token: number): void {
    const text = this.texts[index]!;
    text.text += text.decoder.push(token);
    text.ids.push(token);
    this.#print();
  }

  end(index: number, end: GenerationEnd | 'stopped'): void {
    const text = this.texts[index]!;
    text.text += text.decoder.end();
    text.end = end;
    this.#print();
  }

  #print(): void {
    for (; this.#current < this.texts.length; this.#current++, this.#printed = 0) {
      const { prompt, ids, text, end } = this.texts[this.#current]!;
      if (!this.#stream && !end) return;
      if (this.#json) {
        process.stdout.write(`${JSON.stringify({ prompt, text, tokens: ids.length, end })}\n`);
        continue;
      }
      process.stdout.write(text.slice(this.#printed));
      this.#printed = text.length;
      if (!end) return;
      const isLast = this.#isLast && this.#current === this.texts.length - 1;
      process.stdout.write(isLast ? '\n' : '\n---\n');
    }
  }
}
