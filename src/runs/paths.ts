// Where things lie in a run folder.
import { join } from 'node:path';

export const logPath = (run: string): string => join(run, 'log.jsonl');
export const configPath = (run: string): string => join(run, 'config.json');
export const checkpointsFolder = (run: string): string => join(run, 'checkpoints');
