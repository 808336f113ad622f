/** What a process can tell about the machine that it is on, and about other processes by what they have written down. */
import os from 'node:os';
import { type Life, lifeOf, type NamespacedIdentity, ownIdentity } from './identity.ts';

export interface Host {
  readonly hostname: string;
  /** The identity of this process. */
  readonly self: NamespacedIdentity;
  lifeOf(process: NamespacedIdentity): Life;
  /** When the machine was started, in ms since 1970. */
  bootedAtMs(): number;
}

export function realHost(now: () => number): Host {
  let earliest = Number.POSITIVE_INFINITY;
  return {
    hostname: os.hostname(),
    self: ownIdentity(),
    lifeOf,
    bootedAtMs() {
      // A wall clock that is set forward would move the start of the machine with it.
      earliest = Math.min(earliest, now() - os.uptime() * 1000);
      return earliest;
    },
  };
}
