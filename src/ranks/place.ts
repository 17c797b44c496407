// Reads this process's place among the ranks of a job from the launcher's environment variables: train --gpus and torchrun
// (RANK, WORLD_SIZE, ...), Slurm's srun (SLURM_*), Open MPI's mpirun (OMPI_*).
import { hash } from 'node:crypto';
import { availableParallelism } from 'node:os';
import {
  checkGiven,
  checkValue,
  type Environment,
  whole as number,
  wholeVariable as whole,
} from '../base/checks/given.ts';
import { usageError } from '../base/errors.ts';

export interface Place {
  readonly rank: number;
  readonly ranks: number;
  /** The environment variable that holds `ranks`. */
  readonly ranksFrom: string;
  /** Rank among the ranks of this machine. */
  readonly localRank: number;
  readonly localRanks: number;
  /** Index of the GPU that the rank uses: `localRank`, or 0 if CUDA_VISIBLE_DEVICES shows only one GPU. */
  readonly gpu: number;
  /** Address and port on which rank 0 listens. */
  readonly host: string;
  readonly port: number;
  /** Shared secret of the job's ranks; never sent. */
  readonly token: string;
  /** Seconds that a rank may take to join. */
  readonly joinSeconds: number;
  /** Seconds without a heartbeat after which a rank counts as failed, once training has begun. */
  readonly silenceSeconds: number;
}

/** The most ranks of a job, as --gpus accepts them. */
const mostRanks = 65_536;
const mostPort = 65_535;
/** The longest delay of a Node timer, 2^31 - 1 milliseconds, in seconds. */
const mostSeconds = 2_147_483;

/** Checks a `Place` that a program has made. @throws UsageError for a value that no job can have */
export function checkPlace(place: Place): void {
  const [index, count, seconds] = [number(0, mostRanks - 1), number(1, mostRanks), number(1, mostSeconds)];
  const ofRank = { rank: index, ranks: count, localRank: index, localRanks: count, gpu: index };
  const ofJob = { ranksFrom: 'text', host: 'text', port: number(1, mostPort), token: 'text' } as const;
  checkGiven(place, { ...ofRank, ...ofJob, joinSeconds: seconds, silenceSeconds: seconds }, {});
  checkValue('rank', number(0, place.ranks - 1), place.rank);
}

/** Names of the variables that a launcher sets for a rank, and values that it sets for the job; `placeFromEnvironment` adds defaults. */
interface Launcher {
  readonly names: { rank: string; ranks: string; localRank: string; localRanks: string };
  /** A name by which the launcher identifies the job; undefined if it sets none. */
  readonly job: string | undefined;
  readonly host?: string | undefined;
  /** Whether the launcher itself listens on MASTER_PORT. */
  readonly ownsPort?: boolean;
}

/**
 * The rank, GPU and address of rank 0 that a launcher such as torchrun set for this process; undefined if it trains alone.
 * @throws UsageError if a variable is missing or invalid
 * @example
 * const small = { layers: 2, channels: 64, heads: 2, device: 'cpu', batch: 2, sequence: 32 };
 * await train({ ...small, steps: 2, valEvery: 0, out: 'runs/place' }, { place: placeFromEnvironment() });
 */
export function placeFromEnvironment(environment: Environment = process.env): Place | undefined {
  const launcher = torchrun(environment) ?? slurm(environment) ?? openMpi(environment);
  if (!launcher) return undefined;
  const { names, job } = launcher;
  const rank = whole(environment, names.rank, 0, mostRanks - 1);
  const ranks = whole(environment, names.ranks, 1, mostRanks);
  if (ranks === 1) return undefined;
  if (rank >= ranks) throw usageError`${names.rank} is ${rank}, but ${names.ranks} is ${ranks}`;
  const { [names.localRank]: local, [names.localRanks]: locals } = environment;
  const localRank = local === undefined ? rank : whole(environment, names.localRank, 0, ranks - 1);
  const localRanks = locals === undefined ? 1 : whole(environment, names.localRanks, 1, mostRanks);
  const host = environment.MASTER_ADDR ?? launcher.host;
  if (!host) throw usageError`MASTER_ADDR is not set; set it to the address of rank 0's machine`;
  const port = masterPort(environment, launcher.ownsPort ? 1 : 0) ?? derivedPort(job);
  const seconds = (name: string, otherwise: number) =>
    environment[name] ? whole(environment, name, 1, mostSeconds) : otherwise;
  return {
    ...{ rank, ranks, ranksFrom: names.ranks, localRank, localRanks, host, port },
    gpu: /^[^,]+$/.test(environment.CUDA_VISIBLE_DEVICES ?? '') ? 0 : localRank,
    token: environment.GPT2_JOB_TOKEN || derivedToken(job ?? `${host}:${port}:${ranks}`),
    joinSeconds: seconds('GPT2_JOIN_SECONDS', 300),
    silenceSeconds: seconds('GPT2_SILENCE_SECONDS', 20),
  };
}

function torchrun(environment: Environment): Launcher | undefined {
  const { RANK, WORLD_SIZE, MASTER_PORT, TORCHELASTIC_RUN_ID, TORCHELASTIC_USE_AGENT_STORE } = environment;
  if (RANK === undefined || WORLD_SIZE === undefined) return undefined;
  return {
    names: { rank: 'RANK', ranks: 'WORLD_SIZE', localRank: 'LOCAL_RANK', localRanks: 'LOCAL_WORLD_SIZE' },
    job: TORCHELASTIC_RUN_ID && `torchrun ${TORCHELASTIC_RUN_ID} ${MASTER_PORT}`,
    ownsPort: TORCHELASTIC_USE_AGENT_STORE === 'True',
  };
}

function slurm(environment: Environment): Launcher | undefined {
  const { SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_NTASKS, SLURM_JOB_ID, SLURM_STEP_ID } = environment;
  if (SLURM_PROCID === undefined || (SLURM_STEP_NUM_TASKS ?? SLURM_NTASKS) === undefined) return undefined;
  // Slurm sets these variables in a batch script too, but only the processes that srun starts from the script are ranks.
  if (SLURM_JOB_ID !== undefined && SLURM_STEP_ID === undefined) return undefined;
  const nodes = environment.SLURM_STEP_NODELIST ?? environment.SLURM_JOB_NODELIST ?? environment.SLURM_NODELIST;
  return {
    names: {
      rank: 'SLURM_PROCID',
      ranks: SLURM_STEP_NUM_TASKS === undefined ? 'SLURM_NTASKS' : 'SLURM_STEP_NUM_TASKS',
      localRank: 'SLURM_LOCALID',
      localRanks: 'SLURM_NTASKS_PER_NODE',
    },
    job: SLURM_JOB_ID && `slurm ${SLURM_JOB_ID}.${SLURM_STEP_ID}`,
    host: nodes && firstNode(nodes),
  };
}

function openMpi(environment: Environment): Launcher | undefined {
  const { OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE, OMPI_COMM_WORLD_LOCAL_SIZE } = environment;
  if (OMPI_COMM_WORLD_RANK === undefined || OMPI_COMM_WORLD_SIZE === undefined) return undefined;
  const job = environment.PMIX_NAMESPACE ?? environment.OMPI_MCA_ess_base_jobid;
  return {
    names: {
      rank: 'OMPI_COMM_WORLD_RANK',
      ranks: 'OMPI_COMM_WORLD_SIZE',
      localRank: 'OMPI_COMM_WORLD_LOCAL_RANK',
      localRanks: 'OMPI_COMM_WORLD_LOCAL_SIZE',
    },
    job: job && `mpirun ${job}`,
    host: OMPI_COMM_WORLD_LOCAL_SIZE === OMPI_COMM_WORLD_SIZE ? '127.0.0.1' : undefined,
  };
}

/** CPU threads of this rank: `threads` or, if `threads` is 0 (all cores), the machine's cores divided by the ranks on the machine. */
export const threadsOf = (threads: number, place: Place | undefined): number =>
  threads || !place ? threads : Math.max(1, Math.floor(availableParallelism() / place.localRanks));

/** The first node of a list: "gpu03" of "gpu[03-05,09],login1". */
export function firstNode(nodes: string): string {
  const match = /^([^[,]*)(?:\[([^\],-]+)[^\]]*\]([^,]*))?/.exec(nodes)!;
  return `${match[1]}${match[2] ?? ''}${match[3] ?? ''}`;
}

/** MASTER_PORT plus `beyond`; undefined if MASTER_PORT is not set. @throws UsageError if it is not a port */
export function masterPort(environment: Environment = process.env, beyond = 0): number | undefined {
  if (!environment.MASTER_PORT) return undefined;
  return whole(environment, 'MASTER_PORT', 1, mostPort - beyond) + beyond;
}

/** A port from 10000 to 29999, derived from the job's name: below the ports that systems assign automatically. */
function derivedPort(job: string | undefined): number {
  if (job === undefined) throw usageError`MASTER_PORT is not set; set it to a free port of rank 0's machine`;
  return 10_000 + (hash('sha256', job, 'buffer').readUInt32LE() % 20_000);
}

/** A token that tells jobs apart. It is no secret, because it derives from the job's name: set GPT2_JOB_TOKEN on shared networks. */
const derivedToken = (job: string): string => hash('sha256', `gpt2.ts ${job} ${process.getuid?.() ?? ''}`);
