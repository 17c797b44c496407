// The public API, by topic. Doc comments and examples are at the definitions; the examples omit `import { ... } from 'gpt2.ts'`.
// program.ts has exports that only commands and scripts need.

// Includes TypeScript's library with the type `Disposable`, for programs whose tsconfig.json does not list the library.
/// <reference lib="esnext.disposable" preserve="true" />

// device

export type { DeviceDescription, DeviceOptions, Dtype } from './native/context.ts';
export { Device, type Program } from './native/device.ts';
export { type DeviceChoice, selectDevice } from './native/select-device.ts';

// model

export type { ActivationSizes, Recompute } from './model/activation-tables.ts';
export type { ActivationSet } from './model/activations.ts';
export { type ModelConfig, presetConfig } from './model/config.ts';
export { forward } from './model/forward.ts';
export type { Loss, LossRows } from './model/head.ts';
export { initializeWeights } from './model/initialize.ts';
export { createModel, type Model } from './model/model.ts';
export { type Parameter, parameterCount, parameterTable } from './model/parameters.ts';
export type { ElementType } from './native/element-types.ts';
export type { Tensor } from './native/tensor.ts';

// data

export { type Batch, type Loader, type LoaderOptions, openLoader } from './data/batches/loader.ts';
export type { OrderName, Position } from './data/batches/order.ts';
export type { FetchOptions } from './data/datasets/download.ts';
export { findShards } from './data/datasets/find-shards.ts';
export { type Document, type PrepareOptions, prepareDataset } from './data/datasets/prepare.ts';
export type { Format, Input } from './data/datasets/text/format.ts';
export { findInputs } from './data/datasets/text/inputs.ts';
export { prepareText, type TextOptions } from './data/datasets/text/prepare-text.ts';
export { type ShardOptions, writeShards } from './data/datasets/write-shards.ts';
export { type Dataset, type Role, readDataset, readDatasetTokenizer } from './data/shards/dataset-file.ts';
export type { Prepared } from './data/standing.ts';
export {
  type BuiltInTokenizer,
  decode,
  encode,
  StreamDecoder,
  type Tokenizer,
  tokenizerNamed,
  tokenizerOf,
} from './tokenizer/tokenizer.ts';
export { readTokenizer } from './tokenizer/tokenizer-file.ts';

// training

export type { TrainOptions } from './options/table.ts';
export { placeFromEnvironment } from './ranks/place.ts';
export type { Outlook } from './train/plan/outlook.ts';
export { planRun, type TrainingPlan } from './train/plan/plan.ts';
export type { Batches, BatchesOfRank, ProgramOptions, ProgramParts } from './train/plan/program-parts.ts';
export type { TrainHooks, TrainResult } from './train/run/hooks.ts';
export { learningRateAt, type Schedule } from './train/run/schedule.ts';
export type { StepResult, UpdateLimits } from './train/step/staging.ts';
export { type BegunStep, Trainer, type TrainerOptions } from './train/step/trainer.ts';
export { train, trainEvents } from './train/train.ts';

// optimizers

export { AdamW } from './optimizer/adamw.ts';
export type { OptimizerChoice } from './optimizer/assign.ts';
export { isBlockMatrix, Muon, type MuonOptions } from './optimizer/muon.ts';
export type { IterationName } from './optimizer/newton-schulz.ts';
export type {
  MatrixShape,
  Optimizer,
  StateRow,
  StepScalar,
  UpdateContext,
  UpdatePart,
} from './optimizer/optimizer.ts';

// checkpoints and formats

export { weightsHash } from './train/run/weights-hash.ts';
export { type FoundCheckpoint, listCheckpoints, resolveCheckpoint } from './weights/checkpoint/directory.ts';
export { loadOptimizer, loadWeights } from './weights/checkpoint/read-checkpoint.ts';
export { type CheckpointToWrite, writeCheckpoint } from './weights/checkpoint/write.ts';
export { type ExportFormat, type ExportOptions, exportModel } from './weights/export.ts';
export { saveModel } from './weights/save-model.ts';
export { resolveWeights, type Weights } from './weights/weights.ts';

// generation

export { type Generated, type GenerateOptions, type GenerationEnd, generate } from './inference/sample/generate.ts';
export { generateText, type TextGenerationOptions } from './inference/sample/generate-text.ts';
export { type CacheSizes, KeyValueCache } from './model/key-value-cache.ts';

// evaluation

export { type EvaluateOptions, type Evaluation, evaluate } from './inference/evaluate/evaluate.ts';
export {
  type Hellaswag,
  type HellaswagScore,
  readHellaswag,
  type ScoreOptions,
  scoreHellaswag,
} from './inference/evaluate/hellaswag.ts';
export { logits } from './inference/evaluate/logits.ts';
export { lossesOf, meanLoss } from './inference/evaluate/mean-loss.ts';

// kernels of your own

export { tensorOf } from './native/tensor.ts';
export { compileKernels, type KernelSource } from './ops/kernels/compile.ts';
export {
  type CardLaunch,
  defineKernel,
  type KernelCard,
  type LoadedCard,
  loadCards,
  type OpArgumentsOf,
} from './ops/kernels/kernel-card.ts';
export {
  type Dimensions,
  Kernel,
  type KernelAttributes,
  type Kernels,
  type LaunchShape,
  loadKernels,
} from './ops/kernels/kernels.ts';
export type { KernelArgument, KernelParameter } from './ops/kernels/signature.ts';
export { type CardOptions, useCards } from './ops/kernels/use-cards.ts';
export type { OpName } from './ops/variants.ts';

// runs and comparison

export { type Baseline, type Comparison, compareSeries } from './report/compare/compare.ts';
export { type Reference, readReference } from './report/compare/reference.ts';
export { type RunRecord, type RunSeries, readRun, type Series } from './runs/reader.ts';
export type { RunEvent } from './runs/schema.ts';

// errors

export { CompileError, Gpt2Error, InterruptedError, NativeError, ShapeError, UsageError } from './base/errors.ts';
export { StoppedError } from './train/run/hooks.ts';
