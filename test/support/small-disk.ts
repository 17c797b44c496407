// A disk of a few megabytes that a test may fill: a tmpfs in a namespace of its own, which needs no rights where the system
// lets users have one.
import { spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { expect } from 'vitest';

const inNamespace = (script: string, args: readonly string[]) =>
  spawnSync('unshare', ['--map-root-user', '--mount', 'bash', '-ec', script, 'bash', ...args], { encoding: 'utf8' });

/** Why there can be none, or undefined. */
export const noSmallDisk: string | undefined =
  inNamespace('mount -t tmpfs none /mnt', []).status === 0 ? undefined : 'mounting is not allowed here';

/** Runs a bash script, which must succeed, with such a disk mounted on `folder`, its first argument; it is gone afterwards. */
export function onSmallDisk(folder: string, megabytes: number, script: string, args: readonly string[]) {
  mkdirSync(folder, { recursive: true });
  const mounted = `mount -t tmpfs -o size=${megabytes}m none "$1"\n${script}`;
  const { status, stdout, stderr } = inNamespace(mounted, [folder, ...args]);
  expect(status, stderr).toBe(0);
  return { stdout, stderr };
}
