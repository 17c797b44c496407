// The interface of an open model file of another program: llmc.ts, huggingface.ts.
import type { ModelConfig } from '../../model/config.ts';
import type { Parameter } from '../../model/parameters.ts';
import type { Tokenizer } from '../../tokenizer/tokenizer.ts';

/** An open model file; only its header is in memory. */
export interface StoredModel extends Disposable {
  readonly model: ModelConfig;
  /** The tokenizer stored with the model; for a checkpoint only if it is not built in. */
  readonly tokenizer?: Tokenizer | undefined;
  /** A parameter's real rows in fp32, [out, in]; for wpe the rows of its shape. @throws Gpt2Error if the file cannot be read */
  read(parameter: Parameter): Float32Array;
}

/** The ways to name a trained model (weights/weights.ts), for --help and messages. */
export const modelPaths =
  "a run, a checkpoint, a Hugging Face folder, OWNER/NAME of a GPT-2 on its hub, or llm.c's model .bin";
