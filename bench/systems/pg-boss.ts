/**
 * pg-boss, driven by fetch() and complete() in batches. In full cycles this was twice as fast here as its own worker,
 * which polls every half second or is woken by a NOTIFY of every submit.
 */
import { sleep } from '../kit/numbers.ts';
import { EndWaiters } from './end-waiters.ts';
import { loadPeer } from './peer.ts';
import type { PostgresAddress } from './postgres.ts';
import type { JobBody, System } from './system.ts';

/** The part of pg-boss that is used here. */
interface Job {
  readonly id: string;
  readonly data: JobBody;
}
interface Boss {
  on(event: 'error', listener: (error: Error) => void): void;
  start(): Promise<unknown>;
  stop(options: object): Promise<void>;
  createQueue(name: string): Promise<void>;
  send(name: string, data: JobBody): Promise<string | null>;
  insert(name: string, jobs: readonly { data: JobBody }[]): Promise<unknown>;
  fetch(name: string, options: { batchSize: number }): Promise<Job[]>;
  complete(name: string, ids: readonly string[]): Promise<unknown>;
}
interface PgBoss {
  readonly PgBoss: new (options: object) => Boss;
}

const QUEUE = 'bench';
/** Two loops, so that one can fetch while the other waits for its completion. */
const LOOPS = 2;

export async function openPgBoss(at: PostgresAddress, server: number, inFlight: number): Promise<System> {
  const { PgBoss } = await loadPeer<PgBoss>('pg-boss');
  // One connection for each concurrent submit and for each loop.
  const boss = new PgBoss({ ...at, max: inFlight + LOOPS });
  boss.on('error', (error) => console.error(`bench: pg-boss: ${error.message}`));
  await boss.start();
  await boss.createQueue(QUEUE);
  const ends = new EndWaiters();
  let working = false;
  let loops: Promise<unknown> = Promise.resolve();
  const loop = async (): Promise<void> => {
    while (working) {
      const jobs = await boss.fetch(QUEUE, { batchSize: inFlight });
      if (jobs.length === 0) {
        await sleep(1);
        continue;
      }
      for (const { data } of jobs) system.onStart(data);
      const ids = jobs.map(({ id }) => id);
      await boss.complete(QUEUE, ids);
      for (const id of ids) ends.ended(id);
    }
  };
  const rest = async (): Promise<void> => {
    working = false;
    await loops;
  };
  const system: System = {
    servers: [server],
    onStart: () => undefined,
    async submit(job) {
      await boss.send(QUEUE, job);
    },
    async submitMany(jobs) {
      await boss.insert(
        QUEUE,
        jobs.map((data) => ({ data })),
      );
    },
    async cycle(job) {
      const id = await boss.send(QUEUE, job);
      if (id === null) throw new Error('pg-boss took no job');
      await ends.wait(id);
    },
    async work() {
      working = true;
      loops = Promise.all(Array.from({ length: LOOPS }, loop));
    },
    rest,
    async close() {
      await rest();
      await boss.stop({ graceful: false });
    },
  };
  return system;
}
