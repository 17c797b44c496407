// The types of an open run.
import type { SettledOptions } from '../../options/table.ts';
import type { Ranks } from '../../ranks/ranks.ts';
import type { ScalarFile } from '../../report/tensorboard/scalar-file.ts';
import type { RunEvent } from '../../runs/schema.ts';
import type { RunLog } from '../../runs/writer.ts';
import type { FoundCheckpoint } from '../../weights/checkpoint/directory.ts';
import type { Settled } from '../plan/settle.ts';
import type { RunData } from './data.ts';
import type { RunDescription } from './hooks.ts';
import type { RunModel } from './open-model.ts';

/** An open run. `close()` frees the device and closes files. */
export interface Run extends RunData, RunModel {
  /** Undefined: the run is one process. */
  readonly ranks: Ranks | undefined;
  /** Whether this process writes the run folder. */
  readonly isRoot: boolean;
  readonly options: SettledOptions;
  readonly tokenizer: Settled['tokenizer'];
  /** The run folder; another one if it was replaced during the run (saving.ts). */
  out: string;
  readonly startStep: number;
  /** The step at which this process ends: `steps`, or --stop-after. */
  readonly lastStep: number;
  readonly resumed: FoundCheckpoint | undefined;
  readonly log: RunLog;
  readonly scalars: ScalarFile | undefined;
  /** Name and version of this program. */
  readonly program: string;
  readonly runEvent: Extract<RunEvent, { event: 'run' }>;
  readonly description: RunDescription;
  close(): void;
}
