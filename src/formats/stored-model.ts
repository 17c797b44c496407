// A model of another program as its file is read: llmc-model.ts, huggingface-model.ts.
import type { ModelConfig } from '../model/config.ts';
import type { Parameter } from '../model/parameters.ts';

/** An open file. Nothing but its header is in memory. */
export interface StoredModel extends Disposable {
  readonly path: string;
  readonly model: ModelConfig;
  /** A parameter's real rows, in fp32, as they lie in its tensor; of wpe as many as its shape says. @throws Gpt2Error if the file cannot be read */
  read(parameter: Parameter): Float32Array;
  close(): void;
}

/** What a path can be where a model is asked for (weights.ts), in --help and messages. */
export const modelPaths = "a run, a checkpoint, a Hugging Face folder, or llm.c's model .bin";
