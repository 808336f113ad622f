/**
 * BullMQ: one queue and one worker in this process, on a Redis server. The end of a job is reported by the worker
 * itself, which costs BullMQ less than its QueueEvents.
 */
import { EndWaiters } from './end-waiters.ts';
import { loadPeer } from './peer.ts';
import type { JobBody, System } from './system.ts';

/** The part of BullMQ that is used here; the package is installed on demand, so its own types may be missing. */
interface Job {
  readonly id: string;
  readonly data: JobBody;
}
interface Queue {
  add(name: string, data: JobBody): Promise<Job>;
  addBulk(jobs: readonly { name: string; data: JobBody }[]): Promise<Job[]>;
  obliterate(options: { force: boolean }): Promise<void>;
  close(): Promise<void>;
}
interface Worker {
  on(event: 'completed', listener: (job: Job) => void): void;
  waitUntilReady(): Promise<unknown>;
  close(): Promise<void>;
}
interface BullMq {
  readonly Queue: new (name: string, options: object) => Queue;
  readonly Worker: new (name: string, handle: (job: Job) => Promise<void>, options: object) => Worker;
}

export interface Redis {
  readonly socket: string;
  readonly pid: number;
}

export async function openBullMq(redis: Redis, concurrency: number): Promise<System> {
  const { Queue, Worker } = await loadPeer<BullMq>('bullmq');
  const connection = { path: redis.socket, maxRetriesPerRequest: null };
  const queue = new Queue('bench', { connection, defaultJobOptions: { removeOnComplete: true } });
  await queue.obliterate({ force: true });
  const ends = new EndWaiters();
  let worker: Worker | undefined;
  const system: System = {
    servers: [redis.pid],
    onStart: () => undefined,
    async submit(job) {
      await queue.add('job', job);
    },
    async submitMany(jobs) {
      await queue.addBulk(jobs.map((data) => ({ name: 'job', data })));
    },
    async cycle(job) {
      const { id } = await queue.add('job', job);
      await ends.wait(id);
    },
    async work() {
      worker = new Worker('bench', async (job) => system.onStart(job.data), { connection, concurrency });
      worker.on('completed', (job) => ends.ended(job.id));
      await worker.waitUntilReady();
    },
    async rest() {
      await worker?.close();
      worker = undefined;
    },
    async close() {
      await worker?.close();
      await queue.close();
    },
  };
  return system;
}
