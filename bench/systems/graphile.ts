/**
 * graphile-worker with the settings of its performance page. With these it completes jobs in batches, and reports the
 * end of a job when the batch starts, before it is durable. It has no later event, so its cycle is measured to that
 * point, which is in its favour.
 */
import { EventEmitter } from 'node:events';
import { EndWaiters } from './end-waiters.ts';
import { loadPeer } from './peer.ts';
import type { PostgresAddress } from './postgres.ts';
import type { JobBody, System } from './system.ts';

/** The parts of the packages that are used here. */
type OnError = (event: 'error', listener: (error: Error) => void) => void;
interface Pool {
  on: OnError & ((event: 'connect', listener: (client: { on: OnError }) => void) => void);
  end(): Promise<void>;
}
interface Pg {
  readonly default: { readonly Pool: new (options: object) => Pool };
}
interface Utils {
  migrate(): Promise<void>;
  addJob(task: string, payload: JobBody): Promise<{ readonly id: string }>;
  addJobs(specs: readonly { identifier: string; payload: JobBody }[]): Promise<unknown>;
  release(): Promise<void>;
}
interface Graphile {
  makeWorkerUtils(options: object): Promise<Utils>;
  run(options: object): Promise<{ stop(): Promise<void> }>;
  readonly Logger: new (factory: () => () => void) => object;
}

const TASK = 'bench';
/** From worker.graphile.org/docs/performance; a pool of 65 was no faster here. */
const POOL = 25;
const WORKER = { concurrentJobs: 24, localQueue: { size: 500 }, completeJobBatchDelay: 0 };

export async function openGraphile(at: PostgresAddress, server: number): Promise<System> {
  const { makeWorkerUtils, run, Logger } = await loadPeer<Graphile>('graphile-worker');
  const { Pool } = (await loadPeer<Pg>('pg')).default;
  const pgPool = new Pool({ ...at, max: POOL });
  const logError = (error: Error): void => console.error(`bench: graphile-worker: ${error.message}`);
  pgPool.on('error', logError);
  pgPool.on('connect', (client) => client.on('error', logError));
  const logger = new Logger(() => () => undefined);
  const utils = await makeWorkerUtils({ pgPool, logger });
  await utils.migrate();
  const ends = new EndWaiters();
  const events = new EventEmitter();
  events.on('job:complete', ({ job }: { job: { id: string } }) => ends.ended(job.id));
  let runner: { stop(): Promise<void> } | undefined;
  const rest = async (): Promise<void> => {
    await runner?.stop();
    runner = undefined;
  };
  const system: System = {
    servers: [server],
    onStart: () => undefined,
    async submit(job) {
      await utils.addJob(TASK, job);
    },
    async submitMany(jobs) {
      await utils.addJobs(jobs.map((payload) => ({ identifier: TASK, payload })));
    },
    async cycle(job) {
      const { id } = await utils.addJob(TASK, job);
      await ends.wait(id);
    },
    async work() {
      const taskList = { [TASK]: async (job: JobBody) => system.onStart(job) };
      runner = await run({
        pgPool,
        logger,
        events,
        taskList,
        noHandleSignals: true,
        preset: { worker: WORKER },
      });
    },
    rest,
    async close() {
      await rest();
      await utils.release();
      await pgPool.end();
    },
  };
  return system;
}
