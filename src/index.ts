// The public API. Commands use this and nothing beneath it.
export { type Batch, type Loader, openLoader } from './batches/loader.ts';
export type { BenchReport } from './bench/bench.ts';
export { type BenchSettings, benchTraining } from './bench/bench-training.ts';
export { listCheckpoints, newestValidCheckpoint, resolveCheckpoint } from './checkpoint/directory.ts';
export { loadOptimizer, loadWeights } from './checkpoint/read.ts';
export { refuseOtherVocabulary, resolveWeights, type Weights } from './checkpoint/weights.ts';
export { weightsHash } from './checkpoint/weights-hash.ts';
export { writeCheckpoint } from './checkpoint/write.ts';
export { type Baseline, type Comparison, compareSeries } from './compare/compare.ts';
export { describeMismatches, type NamedRun, type Pair, type Pairing, pairRuns } from './compare/pairs.ts';
export {
  matchingReference,
  mismatches,
  nearestReference,
  type Reference,
  readReference,
  referenceNames,
} from './compare/reference.ts';
export { finewebVersion, finewebVersions, prepareFineweb } from './datasets/fineweb.ts';
export { type PreparedQuestions, prepareHellaswag } from './datasets/hellaswag.ts';
export { type Inspection, inspectShard } from './datasets/inspect.ts';
export { datasetNames, datasets, prepareDataset } from './datasets/prepare.ts';
export { findInputs } from './datasets/text/inputs.ts';
export { type PreparedText, prepareText, shardPrefix, type TextOptions } from './datasets/text/prepare-text.ts';
export { prepareTinystories, tinystories } from './datasets/tinystories.ts';
export type { Check } from './doctor/check.ts';
export { examine } from './doctor/examine.ts';
export { Gpt2Error, NativeError, ShapeError, ToldError, UsageError } from './errors.ts';
export { type EvaluateOptions, type Evaluation, evaluate } from './evaluate/evaluate.ts';
export { checkInferenceMemory, chooseInferenceBatch } from './evaluate/fit.ts';
export {
  type Hellaswag,
  type HellaswagScore,
  readHellaswag,
  type ScoreOptions,
  scoreHellaswag,
} from './evaluate/hellaswag.ts';
export { lossesOf, meanLoss } from './evaluate/mean-loss.ts';
export { type ExportOptions, exportFormats, exportModel } from './formats/export.ts';
export { modelPaths } from './formats/stored-model.ts';
export { type LivePage, openLivePage } from './live/live-page.ts';
export { customModel, type ModelConfig, presetConfig, presetNames } from './model/config.ts';
export { dataSheetFlops } from './model/flops.ts';
export { forward } from './model/forward.ts';
export { initializeWeights } from './model/initialize.ts';
export { KeyValueCache } from './model/key-value-cache.ts';
export { createModel, type Model } from './model/model.ts';
export { type Parameter, parameterCount, parameterTable } from './model/parameters.ts';
export { Device, type DeviceOptions, type Dtype } from './native/device.ts';
export { selectDevice, selectKind } from './native/select-device.ts';
export { AdamW } from './optimizer/adamw.ts';
export type { OptimizerChoice } from './optimizer/assign.ts';
export type { Optimizer, StateRow, StepScalar, UpdateContext, UpdatePart } from './optimizer/optimizer.ts';
export { type NumberRange, readNumber } from './options/number.ts';
export { readOption, readValue, withOptionsFile } from './options/read.ts';
export { flagOf, helpOf, type OptionRow, whole } from './options/row.ts';
export { defaultPort } from './options/start-rows.ts';
export {
  type Configuration,
  type OptionName,
  optionNames,
  optionRows,
  optionTable,
  type TrainOptions,
} from './options/table.ts';
export { agree } from './ranks/agree.ts';
export { launchRanks, stopWithLauncher } from './ranks/launch.ts';
export { type Place, placeFromEnvironment, threadsOf } from './ranks/place.ts';
export { Ranks } from './ranks/ranks.ts';
export { refuseAccidentalCpu, refuseAutoBatch } from './ranks/refuse.ts';
export {
  type Compared,
  describeComparison,
  describeOutside,
  ownFigures,
  ownHead,
  ownRows,
} from './report/comparison-text.ts';
export { htmlReport } from './report/html-report.ts';
export { lossPlot } from './report/loss-plot.ts';
export { formatDuration } from './report/numbers.ts';
export { renderPng } from './report/png.ts';
export { type ReportData, reportData } from './report/report-data.ts';
export { endOfRun, type RunEnd } from './report/run-figures.ts';
export { formatTable } from './report/table.ts';
export { terminalPlot } from './report/terminal-plot.ts';
export { type RunRecord, readRun, type Series } from './runs/reader.ts';
export type { RunEvent } from './runs/schema.ts';
export { fittingTexts, generationRows } from './sample/fit.ts';
export { type Generated, type GenerateOptions, type GenerationEnd, generate } from './sample/generate.ts';
export { type Dataset, findShards, type Role, readDataset } from './shards/find.ts';
export {
  decode,
  encode,
  endOfText,
  StreamDecoder,
  type Tokenizer,
  tokenizerNamed,
  tokenizerNames,
  tokenizerOf,
} from './tokenizer/tokenizer.ts';
export { type Replayed, type ReplayOptions, replay } from './train/failure/replay.ts';
export { planRun, type TrainingPlan } from './train/plan/plan.ts';
export { type RunDescription, StoppedError, type TrainHooks, type TrainResult } from './train/run/hooks.ts';
export { learningRateAt } from './train/run/schedule.ts';
export { wantedRanks } from './train/run/settle.ts';
export { Trainer } from './train/step/trainer.ts';
export { train } from './train/train.ts';
export { trainEvents } from './train/train-events.ts';
