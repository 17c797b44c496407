// The configuration of a model: its sizes, from a preset (d12 is GPT-2 124M) or custom, and its parts (architecture.ts).
import { isDeepStrictEqual } from 'node:util';
import { checkGiven, whole } from '../base/checks/given.ts';
import { usageError } from '../base/errors.ts';
import type { Dtype } from '../native/device.ts';
import { architectureOf, checkArchitecture, type GivenParts, parts } from './architecture.ts';

/** The sizes of a model, and its parts, such as the kind of norm. Each part defaults to GPT-2's choice. */
export interface ModelConfig extends GivenParts {
  readonly layers: number;
  readonly channels: number;
  readonly heads: number;
  readonly context: number;
  /** Number of token ids, without padding; at most 65,536. */
  readonly vocabularySize: number;
  /** Id of the token that begins a document; only for a model with `documentMask`. */
  readonly endOfText?: number | undefined;
}

/** Number of ids in GPT-2's byte-pair vocabulary. */
export const gpt2VocabularySize = 50257;

const presets: Record<string, readonly [layers: number, channels: number, heads: number]> = {
  d6: [6, 384, 6],
  d12: [12, 768, 12],
  d24: [24, 1024, 16],
  d36: [36, 1280, 20],
  d48: [48, 1600, 25],
};

const aliases: Record<string, string> = { gpt2: 'd12', 'gpt2-medium': 'd24', 'gpt2-large': 'd36', 'gpt2-xl': 'd48' };

/** All names that `presetConfig` accepts. */
export const presetNames: readonly string[] = [...Object.keys(presets), ...Object.keys(aliases)];

export const customModel = 'custom';

/** Whether a value of --model names a new model. Other values name weights to start from. */
export const isNewModel = (name: unknown): boolean => name === customModel || presetNames.includes(String(name));

/** The context length, in tokens, of presets and the default of custom models. */
export const defaultContext = 1024;

/**
 * The configuration of a preset: d6, d12 (GPT-2 124M), d24, d36, d48, or an alias from gpt2 to gpt2-xl. Undefined for any other
 * name.
 * @example const config = { ...presetConfig('d12')!, context: 256 };
 */
export function presetConfig(name: string): ModelConfig | undefined {
  const preset = presets[aliases[name] ?? name];
  if (!preset) return undefined;
  const [layers, channels, heads] = preset;
  return { layers, channels, heads, context: defaultContext, vocabularySize: gpt2VocabularySize };
}

/** Name of the pretrained GPT-2 of a preset's size on the Hugging Face hub; undefined for d6 and unknown names, which have none. */
export function pretrainedName(preset: string): string | undefined {
  const alias = Object.keys(aliases).find((each) => each === preset || aliases[each] === preset);
  return alias && `openai-community/${alias}`;
}

/** The name ("d12") of the preset that has the same layers and parts as a configuration; undefined if no preset has. */
export function presetName(config: ModelConfig): string | undefined {
  return Object.keys(presets).find((name) => hasSameLayers(config, presetConfig(name)!));
}

type Layers = Partial<Record<Exclude<keyof ModelConfig, 'context' | 'vocabularySize' | 'endOfText'>, unknown>>;
/** Whether two configurations have the same sizes and parts, ignoring context and vocabulary. */
export const hasSameLayers = (a: Layers, b: Layers): boolean =>
  a.layers === b.layers && a.channels === b.channels && a.heads === b.heads && hasSameParts(a, b);

const hasSameParts = (a: object, b: object): boolean => isDeepStrictEqual(architectureOf(a), architectureOf(b));

/** A short label for a run's first line and its folder: "d12", or sizes such as "l3-c64-h4" if no preset has them. */
export const modelLabel = (config: ModelConfig): string =>
  presetName(config) ?? `l${config.layers}-c${config.channels}-h${config.heads}`;

/** A model's name: the name or path `asked`, or, if `asked` is "custom" or a preset of other sizes, a preset's name or "custom". */
export function modelName(asked: string, config: ModelConfig): string {
  const preset = presetConfig(asked);
  if (asked !== customModel && (!preset || presetName(preset) === presetName(config))) return asked;
  return presetName(config) ?? customModel;
}

/** Allowed sizes of new models. More layers would exhaust host memory. */
export const sizeRanges = {
  layers: whole(1, 1000),
  channels: whole(1, 65536),
  heads: whole(1, 1024),
  context: whole(1, 65536),
} as const;

/**
 * The number of positions that training with sequences of this length covers. With rotary positions only distances matter: if a
 * window limits distances to at most this length, training covers the whole context.
 */
export const trainedPositions = (config: ModelConfig, sequence: number): number =>
  architectureOf(config).positions === 'rotary' && (config.window ?? Number.POSITIVE_INFINITY) <= sequence
    ? config.context
    : Math.min(sequence, config.context);

/** Checks a configuration and returns it. @throws UsageError naming the invalid size or part */
export function checkConfig(config: ModelConfig): ModelConfig {
  const size = whole(1);
  const sizes = { layers: size, channels: size, heads: size, context: size, vocabularySize: whole(1, 65536) };
  checkGiven(config, sizes, { ...parts, endOfText: whole(0) });
  if (config.channels % config.heads !== 0) {
    throw usageError`channels ${config.channels} are not divisible by heads ${config.heads}; give --heads that divide --channels`;
  }
  checkArchitecture(config, config.channels / config.heads);
  const { documentMask, endOfText = Number.POSITIVE_INFINITY } = config;
  if (!documentMask && config.endOfText !== undefined) throw usageError`endOfText goes with documentMask: give both`;
  if (documentMask && endOfText >= config.vocabularySize) {
    throw usageError`documentMask needs endOfText, the token of the vocabulary that begins a document`;
  }
  return config;
}

/** Checks that the matmuls of a dtype support the sizes. @throws UsageError if not */
export function checkDtype({ channels }: Pick<ModelConfig, 'channels'>, dtype: Dtype): void {
  if (dtype !== 'fp8' || channels % 16 === 0) return;
  throw usageError`dtype fp8 needs channels that are a multiple of 16, not ${channels}; take other --channels or --dtype`;
}

/** Rows of the head's matrix: the vocabulary rounded up to a multiple of 128, so that every tile of the head's matmul is full. */
export const paddedVocabularySize = (config: ModelConfig): number => Math.ceil(config.vocabularySize / 128) * 128;
