// Identifies the machine and network namespace that a process runs in.
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';

/** Equal for two processes if and only if they share a loopback: the same boot of the same machine, the same network namespace. */
export function machineName(): string {
  try {
    return `${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()} ${readlinkSync('/proc/self/ns/net')}`;
  } catch {
    return hostname();
  }
}
