// Names the machine that a process runs on.
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';

/** The same for processes that reach each other over their loopback, and for no others: of this start of this machine, by its network. */
export function machineName(): string {
  try {
    return `${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()} ${readlinkSync('/proc/self/ns/net')}`;
  } catch {
    return hostname();
  }
}
