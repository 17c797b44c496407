import { words } from '../../base/errors.ts';
import { continueWith } from '../../base/wording.ts';
import type { Configuration, ResolvedOptions } from '../../options/table.ts';
import type { Ranks } from '../../ranks/ranks.ts';
import type { ScalarFile } from '../../report/tensorboard/scalar-file.ts';
import type { RunEvent } from '../../runs/schema.ts';
import type { RunLog } from '../../runs/writer.ts';
import type { FoundCheckpoint } from '../../weights/checkpoint/directory.ts';
import type { ProgramParts } from '../plan/program-parts.ts';
import type { Resolved } from '../plan/resolve-options.ts';
import type { RunData } from './data.ts';
import type { RunDescription } from './hooks.ts';
import type { RunModel } from './open-model.ts';

/** An open run: options, ranks, steps, data, model and run folder. */
export interface Run {
  readonly options: ResolvedOptions & { readonly warmup: number };
  readonly parts: ProgramParts;
  readonly tokenizer: Resolved['tokenizer'];
  /** Undefined if the run has a single process. */
  readonly ranks: Ranks | undefined;
  readonly span: Pick<RunDescription, 'steps' | 'startStep' | 'lastStep'>;
  readonly data: RunData;
  readonly trained: Omit<RunModel, 'configuration'>;
  readonly folder: RunFolder;
  readonly runEvent: Extract<RunEvent, { event: 'run' }>;
  readonly description: RunDescription;
}

export interface RunFolder {
  /** The folder's path; it changes if the folder was replaced during the run (saving.ts). */
  out: string;
  readonly log: RunLog;
  readonly scalars: ScalarFile | undefined;
  readonly configuration: Configuration;
  readonly program: string;
  readonly resumed: FoundCheckpoint | undefined;
}

/** Advice about a stopped run: how to resume the run, or, if its batches cannot be read again, how to start another. */
export const continuationOf = ({ data, folder }: Pick<Run, 'data' | 'folder'>): string =>
  data.isResumable
    ? continueWith(folder.out)
    : words`the run cannot be resumed, because its batches cannot be read again: start one with another --out`;

export const smallerRate = ({ parts }: Run) => (parts.schedule ? 'smaller rates' : words`a smaller --lr`);
