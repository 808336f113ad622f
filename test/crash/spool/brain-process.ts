/** A brain that works on a spool of the simulated machine, one operation of the disk at a time. */
import { offerOf } from '../../../src/backends/conformance/offers.ts';
import { folderName } from '../../../src/backends/local/command/layout.ts';
import { SpoolExecutions } from '../../../src/backends/spool/executions.ts';
import { SpoolBackend } from '../../../src/backends/spool/spool-backend.ts';
import type { BackendInfo, Offer } from '../../../src/core/ports/backend.ts';
import type { Timers } from '../../../src/kit/env/env.ts';
import type { Commander } from '../../../src/model/worker-wire.ts';
import type { SimProcess, SpoolWorld } from './world.ts';

export const TOKEN = 'job:1';
const OWNER = 'brain';
/** The name of the token's folder. */
export const TOKEN_JOB = folderName(OWNER, TOKEN);

const INFO: BackendInfo = {
  name: 'spool',
  kind: 'spool',
  slots: 4,
  types: undefined,
  models: undefined,
  labels: {},
  paid: false,
  keepsResults: true,
  registry: '',
};

/** Time passes only when the test says so. */
class SimTimers implements Timers {
  #pending: (() => void)[] = [];

  after(_: number, run: () => void): () => void {
    this.#pending.push(run);
    return () => {
      this.#pending = this.#pending.filter((each) => each !== run);
    };
  }

  soon(run: () => void): void {
    queueMicrotask(run);
  }

  fire(): boolean {
    const due = this.#pending;
    this.#pending = [];
    for (const run of due) run();
    return due.length > 0;
  }
}

export class BrainProcess {
  readonly process: SimProcess;
  readonly who: Commander;
  readonly timers: SimTimers;
  readonly backend: SpoolBackend;

  private constructor(process: SimProcess, who: Commander, timers: SimTimers, backend: SpoolBackend) {
    this.process = process;
    this.who = who;
    this.timers = timers;
    this.backend = backend;
  }

  /** A brain that has opened the spool, and has done nothing in it yet. */
  static async open(world: SpoolWorld, epoch = 1): Promise<BrainProcess> {
    const process = world.process();
    const timers = new SimTimers();
    let opened: SpoolExecutions | undefined;
    await process.run(async ({ spool }) => {
      opened = await SpoolExecutions.open({ env: { ...spool.env, timers }, spool, keepAckedMs: 0 });
      await opened.actor.use();
    });
    const executions = opened as SpoolExecutions;
    const backend = new SpoolBackend(INFO, () => Promise.resolve(executions));
    return new BrainProcess(process, { owner: OWNER, epoch }, timers, backend);
  }

  get offer(): Offer {
    return offerOf(this.who, TOKEN, { type: 'work', payloadText: '{}', registry: undefined });
  }
}

/** Lets a process come to its end; a pause of it ends when it has nothing else to do. */
export async function runToEnd(process: SimProcess, timers?: SimTimers): Promise<void> {
  while (!process.isDone && process.isAlive) {
    if (await process.step()) continue;
    if (process.isDone) break;
    if (!timers?.fire()) throw new Error('a process waits for something else than the disk');
    for (let hop = 0; hop < 50 && process.waiting.length === 0 && !process.isDone; hop++) await undefined;
  }
  if (process.failure !== undefined) throw process.failure;
}
