// The folder of published texts: GPT2_DATASETS, or the one next to a clone; undefined if there is neither.
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const shared = fileURLToPath(new URL('../../../shared/datasets', import.meta.url));
export const publishedTexts = process.env.GPT2_DATASETS ?? (existsSync(shared) ? shared : undefined);
