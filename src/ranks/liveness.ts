// Detects ranks that are silent, ranks that lag, and a step that no rank finishes.

export const beatMilliseconds = 1000;
/** Milliseconds that a rank may be silent outside of steps, while it checks shards, fills weights or writes files. */
const idlePatience = 600_000;
/** A step counts as hung after this many times the longest earlier step or the limit of silence, whichever of the two is longer. */
const hangFactor = 10;

/** The last known state of another rank. */
interface Other {
  heard: number;
  step: number;
  /** Time at which the rank was first seen in its current step. */
  since: number;
}

export type Liveness = ReturnType<typeof livenessOf>;

export function livenessOf(ranks: Iterable<number>, silenceSeconds: number) {
  const begun = performance.now();
  const others = new Map([...ranks].map((rank): [number, Other] => [rank, { heard: begun, step: -1, since: begun }]));
  const silence = silenceSeconds * 1000;
  let patience = idlePatience;
  let longestStep = 0;
  /** Time at which the last step was done; undefined until the first step is done, and after work other than a step. */
  let stepDone: number | undefined;
  let lastCheck = begun;
  const liveness = {
    /** The step of this rank; -1 before the first. */
    step: -1,
    /** Records a message from a rank, and the step that it reports. */
    hear(rank: number, step?: number): void {
      const other = others.get(rank)!;
      other.heard = performance.now();
      if (step === undefined || other.step === step) return;
      other.step = step;
      other.since = other.heard;
    },
    /** Begins a step. Until `rest`, a rank that is silent or lags for more than `silenceSeconds` fails the job. */
    begin(step: number): void {
      liveness.step = step;
      if (patience === idlePatience) for (const other of others.values()) other.since = performance.now();
      patience = silence;
    },
    /** Ends a step. From then on, until `rest` or `pause`, a step that no rank finishes fails the job. */
    done(milliseconds: number): void {
      longestStep = Math.max(longestStep, milliseconds);
      stepDone = performance.now();
    },
    /** Stops watching for a step that hangs, until the next step is done. */
    pause(): void {
      stepDone = undefined;
    },
    /** Allows every rank to be busy for long until the next step begins. */
    rest(): void {
      patience = idlePatience;
      liveness.pause();
    },
    /** Ranks that are silent or lag, and this rank (`self`) if no rank finishes the step. To be called every `beatMilliseconds`. */
    failures(self: number): { readonly rank: number; readonly reason: string }[] {
      const now = performance.now();
      const late = now - lastCheck - beatMilliseconds;
      lastCheck = now;
      // While this process was busy, it has not read the other ranks' messages: these ranks do not count as silent.
      if (late > beatMilliseconds) for (const other of others.values()) other.heard = now;
      const furthest = Math.max(liveness.step, ...[...others.values()].map(({ step }) => step));
      const found = [...others].flatMap(([rank, other]) => {
        const reason = failureOf(other, { now, furthest, patience });
        return reason === undefined ? [] : [{ rank, reason }];
      });
      const waited = now - (stepDone ?? now);
      if (waited <= hangFactor * Math.max(longestStep, silence)) return found;
      const what = `has waited ${Math.round(waited / 1000)} s for step ${liveness.step} to end, as has every other rank`;
      return [...found, { rank: self, reason: `${what}: their communication hangs` }];
    },
  };
  return liveness;
}

function failureOf(
  { heard, step, since }: Other,
  { now, furthest, patience }: { now: number; furthest: number; patience: number },
): string | undefined {
  const seconds = Math.round(patience / 1000);
  if (now - heard > patience) {
    return `sent no heartbeat for ${seconds} s, last in ${step < 0 ? 'its preparations' : `step ${step}`}`;
  }
  const isBehind = step < furthest && now - since > patience && now - heard < 3 * beatMilliseconds;
  return isBehind ? `is in step ${step}, and was waited for in step ${furthest} for ${seconds} s` : undefined;
}
