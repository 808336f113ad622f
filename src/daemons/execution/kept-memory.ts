/**
 * The token memory of an executor that remembers over its own death (docs/decisions/0028). What an earlier process has begun is here again:
 * with its outcome, or as a running execution that has to be resumed.
 */
import { crashpoint } from '../../kit/crashpoint.ts';
import type { Cancel, Env } from '../../kit/env/env.ts';
import { pause } from '../../kit/pause.ts';
import { OrchdError } from '../../model/errors.ts';
import type { WorkerOutcome } from '../../model/worker-wire.ts';
import { Execution } from './execution.ts';
import { type KeptFolder, type KeptFolderOptions, openKeptFolder } from './kept-folder.ts';
import type { KeptExecution, KeptRecord, KeptState, KeptToken } from './kept-records.ts';
import type { TokenJournal } from './token-journal.ts';
import { TokenMemory, type TokenMemoryLimits } from './token-memory.ts';

export interface KeptMemoryOptions extends KeptFolderOptions {
  readonly maxLogBytes: number;
  readonly limits?: Partial<TokenMemoryLimits> | undefined;
}

/** The event numbers of an execution begin here, times the number of the life: above all that were told before. */
const NUMBERS_OF_A_LIFE = 1_000_000_000;
/** A record that must be written is tried again after this time while the disk is full. */
const FULL_RETRY_MS = 1000;
/** A record that nobody waits for is written after this time at the latest. */
const LAZY_MS = 1000;
/** A result that is no longer kept is gone from the disk after this time at the latest, and what else was said in its call. */
const GONE_MS = 600_000;
/** One that is to be erased is gone after this time: the file is written anew, once for all that come in between. */
const ERASED_MS = 2000;

export class KeptMemory implements TokenJournal {
  readonly memory: TokenMemory;
  readonly #env: Env;
  readonly #folder: KeptFolder;
  readonly #stop = new AbortController();
  #cancelLazyFlush: Cancel | undefined;
  #cancelCompaction: Cancel | undefined;
  #cancelErasure: Cancel | undefined;

  private constructor({ env, maxLogBytes, limits }: KeptMemoryOptions, folder: KeptFolder) {
    this.#env = env;
    this.#folder = folder;
    const { state } = folder;
    this.memory = new TokenMemory(state.registry, env.clock, { limits, journal: this, since: state.since });
    for (const kept of [...state.tokens.values()]) this.#restore(kept, maxLogBytes);
  }

  static async open(options: KeptMemoryOptions): Promise<KeptMemory> {
    return new KeptMemory(options, await openKeptFolder(options));
  }

  /** What is durable. */
  get state(): KeptState {
    return this.#folder.state;
  }

  /** Settles when the disk has failed: the process must end. */
  get failed(): Promise<OrchdError> {
    return this.#folder.log.failed;
  }

  /** Settles when the record is durable; rejects with WORKER_BUSY if it cannot be written. */
  async write(record: KeptRecord): Promise<void> {
    try {
      await this.#folder.log.append(record);
    } catch (error) {
      const isFull = error instanceof OrchdError && error.code === 'STORE_FULL';
      const message = isFull
        ? 'the disk of this executor is full: it begins nothing'
        : 'this executor can write nothing any more';
      throw new OrchdError('WORKER_BUSY', message, { retryAfterMs: FULL_RETRY_MS }, { cause: error });
    }
  }

  /** Writes a record about something that has happened: tries until it is durable, and never settles if it cannot be. */
  async writeSurely(record: KeptRecord): Promise<void> {
    for (;;) {
      try {
        await this.#folder.log.append(record);
        return;
      } catch (error) {
        if (!(error instanceof OrchdError && error.code === 'STORE_FULL') || this.#stop.signal.aborted)
          return new Promise(() => undefined);
      }
      await pause(this.#env.timers, FULL_RETRY_MS, this.#stop.signal);
    }
  }

  async begun({ owner, token, jobId, hash, begunAt, call }: Execution): Promise<void> {
    await this.write({
      is: 'begin',
      owner,
      token,
      job: jobId,
      at: begunAt,
      ...(hash !== undefined && { hash }),
      ...(call && { call }),
    });
    crashpoint('gateway:after-intent');
  }

  /** Keeps the provider's id of the call. */
  async keepId(execution: Execution, id: string): Promise<void> {
    const { owner, token } = execution;
    await this.writeSurely({ is: 'upstream', owner, token, id });
    execution.upstreamId = id;
    crashpoint('gateway:after-upstream-id');
  }

  async ended({ owner, token }: Execution, outcome: WorkerOutcome): Promise<void> {
    crashpoint('gateway:before-result');
    await this.writeSurely({ is: 'end', owner, token, outcome, at: this.#env.clock.now() });
    crashpoint('gateway:after-result');
  }

  buried(owner: string, token: string, at: number): Promise<void> {
    return this.write({ is: 'tombstone', owner, token, at });
  }

  acknowledged(owner: string, token: string): void {
    this.#writeLazily({ is: 'acknowledged', owner, token });
  }

  dropped(owner: string, token: string): void {
    this.#writeLazily({ is: 'dropped', owner, token });
  }

  async erased(owner: string, token: string): Promise<void> {
    // Durable before the answer: a process that dies then leaves no result to the next one.
    await this.write({ is: 'acknowledged', owner, token });
    this.#eraseLater();
  }

  removed(owner: string, token: string, since: number): void {
    this.#writeLazily({ is: 'since', since, owner, token });
  }

  async close(): Promise<void> {
    this.#stop.abort();
    this.#cancelLazyFlush?.();
    this.#cancelCompaction?.();
    this.#cancelErasure?.();
    await this.#folder.close();
  }

  #eraseLater(): void {
    if (this.#stop.signal.aborted) return;
    this.#cancelErasure ??= this.#env.timers.after(ERASED_MS, () => {
      this.#cancelErasure = undefined;
      void this.#folder.log.compact().then((isDone) => isDone || this.#eraseLater());
    });
  }

  #writeLazily(record: KeptRecord): void {
    const { log } = this.#folder;
    log.appendLazily(record);
    this.#cancelLazyFlush ??= this.#env.timers.after(LAZY_MS, () => {
      this.#cancelLazyFlush = undefined;
      log.flushLazy();
    });
    this.#cancelCompaction ??= this.#env.timers.after(GONE_MS, () => {
      this.#cancelCompaction = undefined;
      void log.compact();
    });
  }

  #restore(kept: KeptToken, maxLogBytes: number): void {
    if ('tombstone' in kept) {
      const { owner, token, at } = kept.tombstone;
      this.memory.restore(owner, token, at, { is: 'tombstone' });
      return;
    }
    const { owner, token, job, at } = kept.begin;
    this.memory.restore(
      owner,
      token,
      at,
      kept.gone
        ? { is: 'forgotten', jobId: job, acknowledged: kept.gone === 'acknowledged' }
        : { is: 'execution', execution: this.#executionOf(kept, maxLogBytes) },
    );
  }

  #executionOf({ begin, upstreamId, end }: KeptExecution, maxLogBytes: number): Execution {
    const { owner, token, job, hash, at, call } = begin;
    const numbered = this.state.life * NUMBERS_OF_A_LIFE;
    return new Execution({
      owner,
      token,
      jobId: job,
      hash,
      model: call?.model ?? '',
      clock: this.#env.clock,
      maxLogBytes,
      call,
      earlier: { numbered, begunAt: at, upstreamId, outcome: end?.outcome },
    });
  }
}
