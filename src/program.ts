// Exports that this package's commands and scripts use in addition to the public API (index.ts).

export { checkValue, type NumberType } from './base/checks/given.ts';
export { didYouMean } from './base/checks/nearest.ts';
export { attempt, ExitError, explained, gpt2Error, orElse, usageError } from './base/errors.ts';
export { decodeUtf8 } from './base/files/strict-text.ts';
export { packageRoot, programVersion } from './base/package-root.ts';
export { signalOf } from './base/signals.ts';
export { asTyped, isCompiled, shellWord } from './base/wording.ts';
export { tokenizerKinds } from './data/choose-tokenizer.ts';
export { corpora, datasetNames, datasets } from './data/datasets/datasets.ts';
export { prepareHellaswag } from './data/datasets/hellaswag-questions.ts';
export { firstWords, inspectShard } from './data/datasets/inspect.ts';
export { fieldOfTexts } from './data/datasets/text/inputs.ts';
export { shardPrefix } from './data/datasets/text/prepare-text.ts';
export {
  checkInferenceMemory,
  checkSequence,
  chooseInferenceBatch,
  fittingTexts,
  generationRows,
} from './inference/fit-memory.ts';
export { describeCut } from './inference/sample/generate.ts';
export type { BenchReport } from './lab/bench/bench.ts';
export { benchGeneration, benchTraining } from './lab/bench/bench-training.ts';
export { leastMs } from './lab/bench/peaks.ts';
export { benchJobs } from './lab/bench-kernels.ts';
export { type CheckedExercise, checkCourse, startCourse } from './lab/course.ts';
export type { Check } from './lab/doctor/check.ts';
export { examine } from './lab/doctor/examine.ts';
export { findCards } from './lab/find-cards.ts';
export { KernelProcess } from './lab/kernel-process.ts';
export { climb, type LadderOptions, type MeasuredStep } from './lab/ladder.ts';
export { naiveKernels, newKernel } from './lab/new-kernel.ts';
export { labOps } from './lab/ops.ts';
export { runProgram } from './lab/run-program.ts';
export { showKernels } from './lab/show-kernels.ts';
export { testFile } from './lab/test-file.ts';
export { compileUntested, jobsOf, jobsText, type LabOptions, testJobs } from './lab/test-kernels.ts';
export { profileKernels, sanitize } from './lab/tools.ts';
export { watchKernels } from './lab/watch-kernels.ts';
export { customModel, presetNames } from './model/config.ts';
export { dataSheetFlops, rateNote } from './model/flops.ts';
export { inferenceDtype, selectKind } from './native/select-device.ts';
export { TemporaryFolder } from './native/temporary-folder.ts';
export { cardHashes, loadFolders } from './ops/kernels/card-hash.ts';
export { compiledFile, readSource } from './ops/kernels/compile.ts';
export { askedSteps, checkNeeds, completeOptions, refuseRanks } from './options/complete-options.ts';
export { isCompared, recordedValue } from './options/configuration.ts';
export { type PresetName, readPreset, runPresetNames } from './options/presets.ts';
export { readValue } from './options/read-options.ts';
export { runToResume, withGiven } from './options/resumed-options.ts';
export { helpOf, type OptionRow, real, whole } from './options/row.ts';
export { nameSources, resolveSources, type Sources } from './options/sources.ts';
export { defaultPort } from './options/start-rows.ts';
export {
  flagNamed,
  type OptionName,
  optionNamed,
  optionNames,
  optionParts,
  optionRows,
  optionTable,
  plain,
  recordedNames,
} from './options/table.ts';
export { launchRanks, stopWithLauncher } from './ranks/launch.ts';
export { threadsOf } from './ranks/place.ts';
export { isRoot, Ranks } from './ranks/ranks.ts';
export { type Over, overNames } from './report/axis.ts';
export { pairRuns } from './report/compare/pairs.ts';
export { referenceNames } from './report/compare/reference.ts';
export { compareRuns } from './report/compare-runs.ts';
export type { Figure } from './report/figure.ts';
export { formatBytes, formatCount, formatDuration, formatRate, formatTable, shortTime } from './report/format-text.ts';
export { htmlReport } from './report/html-report.ts';
export { type LivePage, openLivePage } from './report/live/live-page.ts';
export { describeDone, endOfRun, figuresOf } from './report/logged-run.ts';
export { lossPlot } from './report/loss-plot.ts';
export { gpuFields, readClocks } from './report/machine-load.ts';
export { makeFigure } from './report/make-figure.ts';
export { renderPng } from './report/png.ts';
export { describeRanking, type RunSummary, rankRuns, summarizeRun, withTies } from './report/ranking.ts';
export { barsSvg, shorten } from './report/svg.ts';
export { terminalPlot } from './report/terminal-plot.ts';
export { holdsRun, modelOrNewest } from './runs/existing.ts';
export { findRuns, newestRun } from './runs/find-runs.ts';
export { timeName } from './runs/paths.ts';
export { jsonText } from './runs/schema.ts';
export { promptIds } from './tokenizer/tokenizer.ts';
export { leastVocabulary, mostVocabulary, trainTokenizer } from './tokenizer/train-tokenizer.ts';
export { type ReplayOptions, replay } from './train/failure/replay.ts';
export { epochsText, outlookText, outlookWarnings } from './train/plan/outlook.ts';
export { planSources } from './train/plan/plan.ts';
export { checkRuns, wantedRanks } from './train/plan/resolve-options.ts';
export type { RunDescription } from './train/run/hooks.ts';
export { agree } from './train/run/same-inputs.ts';
export { trainSources } from './train/train.ts';
export { weightTypes } from './weights/files/weight-types.ts';
export { formats, modelPaths } from './weights/formats/formats.ts';
export { positionsOf, refuseOtherTokenizer } from './weights/weights.ts';
