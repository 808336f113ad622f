/** The main thread's side of the election: starts the elector's thread, gives it orders and receives its messages. */

import { Worker } from 'node:worker_threads';
import type { Leader, Leadership, Term } from '../../core/ports/leadership.ts';
import type { Cancel, Env } from '../../kit/env/env.ts';
import { OrchdError } from '../../model/errors.ts';
import { type Candidate, clusterSecret, lockNameOf } from './election.ts';
import type { ElectorMessage } from './elector.ts';
import { type ElectorData, type ElectorOrder, HELD_UNTIL, LAST_BEAT } from './elector-main.ts';
import { openFailure } from './mariadb.ts';
import { connector } from './sql.ts';
import { checkDurable, migrate } from './tables.ts';

export interface LeadershipOptions {
  readonly url: string;
  readonly unsafe: boolean;
  /** A lead ends this long after its last renewal. */
  readonly ttlMs: number;
}

const BEAT_MS = 250;
const SECRET_BYTES = 32;

const nowMs = (): bigint => process.hrtime.bigint() / 1_000_000n;

export class MariaDbLeadership implements Leadership {
  readonly lockName: string;
  leader: Leader | undefined;
  readonly #env: Env;
  readonly #options: LeadershipOptions;
  readonly #instants = new BigInt64Array(new SharedArrayBuffer(16));
  readonly #listeners: (() => void)[] = [];
  #secret = '';
  #self: Candidate | undefined;
  #worker: Worker | undefined;
  #stopBeat: Cancel | undefined;
  #won: PromiseWithResolvers<Term> | undefined;
  #over: (() => void) | undefined;
  #resigned: (() => void) | undefined;
  #closed = false;

  constructor(env: Env, options: LeadershipOptions) {
    this.#env = env;
    this.#options = options;
    this.lockName = lockNameOf(decodeURIComponent(new URL(options.url).pathname.slice(1)));
  }

  /** The nodes of this database know each other by this secret. */
  get secret(): string {
    return this.#secret;
  }

  async open(self: { readonly node: string; readonly address: string }): Promise<void> {
    this.#self = { ...self, ttlMs: this.#options.ttlMs };
    try {
      const sql = await connector(this.#options.url)();
      try {
        await checkDurable(sql, this.#options.unsafe);
        await migrate(sql);
        this.#secret = await clusterSecret(sql, this.#env.random.hex(SECRET_BYTES));
      } finally {
        await sql.close();
      }
    } catch (error) {
      throw openFailure(error);
    }
    this.#beat();
    this.#worker = this.#start();
  }

  win(): Promise<Term> {
    if (this.#closed) return Promise.reject(new OrchdError('SHUTTING_DOWN'));
    this.#won ??= Promise.withResolvers<Term>();
    // A thread that died in the last term is replaced.
    this.#worker ??= this.#start();
    this.#order('stand');
    return this.#won.promise;
  }

  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  /** Gives up the lead: the thread ends, and a new one is started for the next term. */
  async resign(): Promise<void> {
    if (!this.#worker) return;
    await this.#leave();
    if (!this.#closed) this.#worker = this.#start();
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#leave();
    this.#stopBeat?.();
    this.#won?.reject(new OrchdError('SHUTTING_DOWN'));
  }

  async #leave(): Promise<void> {
    const worker = this.#worker;
    if (!worker) return;
    const left = new Promise<void>((resolve) => {
      this.#resigned = resolve;
    });
    this.#order('close');
    await left;
    this.#worker = undefined;
    this.#end();
    await worker.terminate();
  }

  #order(order: ElectorOrder): void {
    this.#worker?.postMessage(order);
  }

  #start(): Worker {
    const script = import.meta.url.endsWith('.ts') ? './elector-main.ts' : './elector-main.js';
    const { url } = this.#options;
    const data: ElectorData = {
      url,
      lockName: this.lockName,
      self: this.#self as Candidate,
      shared: this.#instants.buffer,
    };
    const worker = new Worker(new URL(script, import.meta.url), {
      workerData: data,
      name: 'orchd-election',
      execArgv: [],
    });
    worker.on('message', (said: ElectorMessage) => this.#hear(said));
    worker.on('error', (error) => this.#lost(worker, error as Error));
    worker.on('exit', () => this.#lost(worker, new Error('the thread of the election has ended')));
    return worker;
  }

  #hear(said: ElectorMessage): void {
    if (said.is === 'won') this.#lead(said.epoch);
    else if (said.is === 'over') this.#end();
    else if (said.is === 'closed') this.#resigned?.();
    else this.#setLeader(said.leader);
  }

  /** The thread has died: nothing is renewed, so the lead is over, and this node does not stand for the next one. */
  #lost(worker: Worker, error: Error): void {
    if (this.#worker !== worker) return;
    this.#worker = undefined;
    this.#resigned?.();
    this.#end();
    this.#won?.reject(error);
    this.#won = undefined;
  }

  #lead(epoch: number): void {
    const over = new Promise<void>((resolve) => {
      this.#over = resolve;
    });
    const { node, address } = this.#self as Candidate;
    this.#won?.resolve({ epoch, over, holds: () => nowMs() < Atomics.load(this.#instants, HELD_UNTIL) });
    this.#won = undefined;
    this.#setLeader({ epoch, node, address, silentMs: 0 });
  }

  #end(): void {
    Atomics.store(this.#instants, HELD_UNTIL, 0n);
    const over = this.#over;
    this.#over = undefined;
    if (!over) return;
    this.#setLeader(undefined);
    over();
  }

  #setLeader(leader: Leader | undefined): void {
    this.leader = leader;
    for (const listener of this.#listeners) listener();
  }

  /** Tells the thread that the main loop is alive. */
  #beat(): void {
    Atomics.store(this.#instants, LAST_BEAT, nowMs());
    this.#stopBeat = this.#env.timers.after(BEAT_MS, () => this.#beat());
  }
}
