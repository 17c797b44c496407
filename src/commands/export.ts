import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { Command, Option } from 'commander';
import { type ExportOptions, exportModel } from '../index.ts';
import { formatBytes, formats, modelOrNewest, weightTypes } from '../program.ts';
import { modelOption } from './option-of-table.ts';
import { withProgress } from './progress.ts';

const examples = `
Examples:
  npm run gpt2 -- export --model runs/d12 --format hf --out d12-hf        for transformers: from_pretrained('d12-hf')
  npm run gpt2 -- export --model runs/d12 --format llmc --dtype bf16 --out gpt2_124M_bf16.bin
  npm run gpt2 -- export --model runs/d12 --format gguf --out d12.gguf    for llama.cpp
  npm run gpt2 -- export --model d12-hf --format gguf --dtype fp16 --out d12-fp16.gguf
  npm run gpt2 -- export --model openai-community/gpt2 --format gguf --out gpt2.gguf
`;

export function exportCommand(): Command {
  const list = Object.entries(formats).map(([name, { description }]) => `${name}: ${description}`);
  const format = new Option('--format <NAME>', `${list.join('; ')} (required)`);
  const dtype = new Option('--dtype <NAME>', 'number format of the weights');
  return new Command('export')
    .description('Write a trained model for another program')
    .addOption(modelOption())
    .addOption(format.choices(Object.keys(formats)).makeOptionMandatory())
    .requiredOption('--out <PATH>', 'the file or folder to write (required)')
    .addOption(dtype.choices(Object.keys(weightTypes)).default('fp32'))
    .addHelpText('after', examples)
    .action(async (options: Omit<ExportOptions, 'model'> & { model?: string }) => {
      const model = modelOrNewest(options.model);
      const { out } = options;
      const from = await withProgress((shown) => exportModel({ ...options, model, ...shown }));
      process.stdout.write(`wrote ${out} from ${from}: ${formatBytes(sizeOf(out))}, ${options.dtype}\n`);
    });
}

/** Bytes of a file, or of the files directly in a folder. */
const sizeOf = (path: string): number =>
  statSync(path).isDirectory()
    ? readdirSync(path).reduce((sum, name) => sum + statSync(join(path, name)).size, 0)
    : statSync(path).size;
