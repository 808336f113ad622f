/** Entry point of the thread on which a node takes part in the election. */
import { parentPort, workerData } from 'node:worker_threads';
import { realEnv } from '../../kit/env/real.ts';
import type { Candidate } from './election.ts';
import { Elector } from './elector.ts';
import { nobodyListens } from './listener.ts';
import { connector } from './sql.ts';

/** Orders of the main thread: stand for the lead, or give it up and end. */
export type ElectorOrder = 'stand' | 'close';

export interface ElectorData {
  readonly url: string;
  readonly lockName: string;
  readonly self: Candidate;
  /** Two instants in milliseconds: until when the lead is held, and when the main loop was last alive. */
  readonly shared: SharedArrayBuffer;
}

export const HELD_UNTIL = 0;
export const LAST_BEAT = 1;

const PROBE_MS = 500;

if (parentPort) {
  const port = parentPort;
  const { url, lockName, self, shared } = workerData as ElectorData;
  const instants = new BigInt64Array(shared);
  const elector = new Elector({
    connect: connector(url),
    self,
    lockName,
    // This node listens already: a former process with its name and address does not any more.
    isGone: async ({ node, address }) =>
      node === self.node && address === self.address ? true : nobodyListens(address, PROBE_MS),
    timers: realEnv().timers,
    now: () => Number(process.hrtime.bigint() / 1_000_000n),
    lastBeat: () => Number(Atomics.load(instants, LAST_BEAT)),
    setHeldUntil: (at) => Atomics.store(instants, HELD_UNTIL, BigInt(Math.floor(at))),
    say: (what) => port.postMessage(what),
  });
  port.on('message', (order: ElectorOrder) => (order === 'stand' ? elector.stand() : elector.close()));
  void elector.run().then(() => port.close());
}
