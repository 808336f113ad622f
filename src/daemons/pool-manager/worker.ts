/**
 * One worker: its process, what is known of it, and how it ends.
 *
 * W1  Every step is on disk before it has an effect: the intent before the process is started, the end before it is
 *     killed. A manager that takes over goes on from there.
 * W2  What was promised of the device is held until no process of the worker lives any more.
 * W3  It is started once and never again: what has failed stays failed.
 */
import type { Cancel } from '../../kit/env/env.ts';
import { every } from '../../kit/every.ts';
import { stableHash } from '../../kit/hash.ts';
import { pause } from '../../kit/pause.ts';
import { isAlive, type ProcessIdentity } from '../../kit/process/identity.ts';
import { findLeader, isAnyAlive, type Mark, signalMarked } from '../../kit/process/marked.ts';
import { placeOf } from '../../kit/redact.ts';
import { type ErrorCode, OrchdError } from '../../model/errors.ts';
import type { WorkerReady, WorkerState, WorkerStatus } from '../../model/pool-wire.ts';
import type { Commander } from '../../model/worker-wire.ts';
import type { Holder } from './accounts.ts';
import { logPath, markOf, type WorkerRecord } from './layout.ts';
import { reasonIn } from './log-tail.ts';
import type { Ending, SpawnSpec } from './processes.ts';
import { lastBytes, spawnWorker, trimLog } from './processes.ts';
import { WorkerFile } from './worker-file.ts';
import { WorkerLine } from './worker-line.ts';
import type { WorkerParts } from './worker-parts.ts';

/** Between two looks at whether an adopted process lives, and whether a log has to be cut. */
const PROCESS_POLL_MS = 1000;
/** Between two looks at whether a signal has ended the processes. */
const EXIT_POLL_MS = 50;
const KILL_AGAIN_MS = 1000;
const LOG_TAIL_BYTES = 16 * 1024;

export class ManagedWorker {
  readonly id: string;
  readonly #parts: WorkerParts;
  readonly #file: WorkerFile;
  readonly #mark: Mark;
  #line: WorkerLine | undefined;
  #begun: Promise<void> = Promise.resolve();
  #ending: Promise<void> | undefined;
  #leaving: Promise<void> | undefined;
  #gone = false;
  #removed = false;
  #closed = false;
  #active = 0;
  #hasItSince: number | undefined;
  #stopStarting: Cancel = () => undefined;
  #stopDraining: Cancel = () => undefined;
  #stopWatching: Cancel = () => undefined;

  constructor(parts: WorkerParts, record: WorkerRecord) {
    this.id = record.id;
    this.#parts = parts;
    this.#file = new WorkerFile(parts.env, parts.layout, record);
    this.#mark = markOf(parts.registry, record.id);
  }

  get record(): WorkerRecord {
    return this.#file.record;
  }

  /** Settles when its order is on disk and carried out. */
  get begun(): Promise<void> {
    return this.#begun;
  }

  /** Nothing of it lives any more. */
  get gone(): boolean {
    return this.#gone;
  }

  get removed(): boolean {
    return this.#removed;
  }

  get status(): WorkerStatus {
    const { error, stopped, drain, ready } = this.record;
    if (error) return 'failed';
    if (stopped || drain) return 'draining';
    if (!ready) return 'starting';
    return this.#active > 0 ? 'busy' : 'ready';
  }

  get holder(): Holder {
    const { order, vramBytes } = this.record;
    return { id: this.id, gpu: order.gpu_id, vramBytes, hasItSince: this.#hasItSince };
  }

  view(withToken: boolean): WorkerState {
    const { id, order, vramBytes, startedAt, ready, readyAt, error, secret } = this.record;
    return {
      id,
      model_ref: order.model_ref,
      gpu: order.gpu_id,
      vram_used: ready?.vram_bytes ?? vramBytes,
      status: this.status,
      started_at: new Date(startedAt).toISOString(),
      ...(readyAt !== undefined && { ready_at: new Date(readyAt).toISOString() }),
      ...(ready && {
        uri: ready.uri,
        slots: ready.slots,
        context_length: ready.context_length,
        registry: ready.registry,
        ...(ready.features && { features: ready.features }),
      }),
      ...(error && { error }),
      ...(withToken && { token: secret }),
    };
  }

  /** Starts the process; settles when the intent is on disk and it runs, or has failed. */
  begin(spec: Omit<SpawnSpec, 'mark' | 'log' | 'cwd'>): Promise<void> {
    this.#begun = this.#begin(spec);
    return this.#begun;
  }

  async #begin(spec: Omit<SpawnSpec, 'mark' | 'log' | 'cwd'>): Promise<void> {
    const { layout } = this.#parts;
    await this.#file.save({});
    if (this.record.stopped) return;
    const log = logPath(layout, this.id);
    const spawned = await spawnWorker({ ...spec, mark: this.#mark, log, cwd: layout.folder }, (ending) =>
      this.#ended(ending),
    );
    if (spawned.is === 'failed') {
      this.#fail('WORKER_START_FAILED', `the process could not be started (${spawned.why})`);
      return;
    }
    this.#armStart();
    this.#watch();
    // Not written, it is found again by its mark.
    await this.#file.keep({ process: spawned.process }).catch((error: unknown) => this.#complain(error));
  }

  /** Takes over what an earlier manager has started. */
  async adopt(): Promise<void> {
    const { process: known, error, stopped, ready } = this.record;
    const found = known ?? findLeader(this.#mark);
    const lives = found !== undefined && isAlive(found);
    if (found && !known) await this.#file.save({ process: found });
    if (ready) this.#hasItSince = Number.NEGATIVE_INFINITY;
    // The first thing that is said of it must be right: what nobody has is free.
    this.#gone = !lives && !isAnyAlive(this.#mark, found);
    if (stopped) return void this.#leave();
    if (error) return void this.#end();
    if (!lives) {
      if (ready) this.#fail('WORKER_UNAVAILABLE', 'its process ended while no manager watched it');
      else
        this.#fail('WORKER_START_FAILED', this.#withReason('the manager ended while it was being started'));
      return;
    }
    this.#watch(found);
    this.#armDeadline();
    if (!ready) return this.#armStart();
    await this.#listen(ready.uri);
  }

  /** The worker says that it can be used. */
  async ready(body: WorkerReady): Promise<void> {
    const { worker_id: _, model_ref, ...said } = body;
    const { order, vramBytes, error, stopped, ready } = this.record;
    if (error || stopped) {
      // It lives although it was given up.
      if (this.#gone) this.#ending = undefined;
      this.#gone = false;
      void this.#end();
      throw new OrchdError('ILLEGAL_STATE', 'this worker was given up');
    }
    if (ready) {
      if (stableHash(ready) === stableHash(said)) return this.#file.settled();
      throw new OrchdError('ILLEGAL_STATE', 'this worker is ready already, and was another one');
    }
    if (model_ref !== order.model_ref)
      this.#refuse('it has another model than it was started for', 'model_ref');
    const more = said.vram_bytes - vramBytes;
    // What was only guessed may turn out to be more, where there is more.
    const wasGuessed = order.vram_bytes === undefined;
    if (more > 0 && !(wasGuessed && this.#parts.hasRoom(order.gpu_id, more))) {
      this.#refuse(
        `it needs ${said.vram_bytes} bytes of the device, ${vramBytes} were promised`,
        'vram_bytes',
      );
    }
    if (!this.#parts.allowsUri(said.uri)) this.#refuse('it is reached at a place that is not allowed', 'uri');
    await this.#file.save({
      ready: said,
      readyAt: this.#parts.env.clock.now(),
      vramBytes: Math.max(vramBytes, said.vram_bytes),
    });
    this.#stopStarting();
    if (this.record.error || this.record.stopped)
      throw new OrchdError('ILLEGAL_STATE', 'this worker was given up');
    this.#hasItSince = this.#parts.env.clock.monotonic();
    this.#parts.onChange('ready');
    this.#log('a worker is ready');
    void this.#listen(said.uri);
  }

  async drain(deadlineMs: number | undefined, by: Commander): Promise<void> {
    if (this.record.error) throw new OrchdError('ILLEGAL_STATE', 'this worker has failed');
    if (this.record.stopped) return;
    const { now } = this.#parts.env.clock;
    const deadline = deadlineMs === undefined ? {} : { deadlineAt: now() + deadlineMs };
    await this.#file.save({ drain: { ...deadline, by } });
    this.#armDeadline();
    this.#parts.onChange('status');
    await this.#line?.drain(by);
  }

  async stop(): Promise<void> {
    if (this.#leaving !== undefined) return this.#file.settled();
    await this.#file.save({ stopped: true });
    if (this.#leaving !== undefined) return;
    this.#log('a worker is stopped');
    this.#parts.onChange('status');
    void this.#leave();
  }

  /** Lets go of it; its process goes on. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#quiet();
    await this.#begun.catch(() => undefined);
    this.#quiet();
    await this.#file.settled().catch(() => undefined);
  }

  /** Settles when everything of it is gone, whether or not that can be written down. */
  async end(): Promise<void> {
    await this.stop().catch((error: unknown) => this.#complain(error));
    await this.#leave();
  }

  async #listen(uri: string): Promise<void> {
    this.#line = new WorkerLine(this.#parts, uri, this.record.secret, this.id, {
      onActive: (active) => {
        const changes = active > 0 !== this.#active > 0;
        this.#active = active;
        if (changes) this.#parts.onChange('status');
      },
      onLost: (why) => this.#fail('WORKER_UNAVAILABLE', why),
    });
    const { drain } = this.record;
    if (drain) await this.#line.drain(drain.by);
    await this.#line.start();
  }

  #refuse(why: string, field: string): never {
    this.#fail('WORKER_START_FAILED', why);
    throw new OrchdError('INVALID_PARAMS', why, { field });
  }

  #ended({ code, signal }: Ending): void {
    if (this.#closed) return;
    const how = signal === null ? `code ${code}` : `signal ${signal}`;
    if (this.record.ready) this.#fail('WORKER_UNAVAILABLE', `its process ended with ${how}`);
    else
      this.#fail(
        'WORKER_START_FAILED',
        this.#withReason(`its process ended with ${how} before it was ready`),
      );
  }

  #withReason(what: string): string {
    const log = lastBytes(logPath(this.#parts.layout, this.id), LOG_TAIL_BYTES);
    const reason = reasonIn(log, [this.record.secret]);
    return reason === '' ? what : `${what}: ${reason}`;
  }

  #fail(code: ErrorCode, message: string): void {
    if (this.record.error || this.record.stopped || this.#closed) return;
    this.#quiet();
    // On disk before the process is ended (W1); where the disk fails it is ended all the same.
    const saved = this.#file
      .save({ error: { code, message } })
      .catch((error: unknown) => this.#complain(error));
    this.#parts.logger.warn('a worker has failed', { worker_id: this.id, error_code: code, reason: message });
    this.#parts.onChange('status');
    void saved.then(() => this.#end());
  }

  #leave(): Promise<void> {
    this.#leaving ??= this.#endAndRemove();
    return this.#leaving;
  }

  async #endAndRemove(): Promise<void> {
    this.#quiet();
    await this.#end();
    if (this.#closed) return;
    await this.#file.remove().catch((error: unknown) => this.#complain(error));
    this.#removed = true;
    this.#parts.onChange('gone');
  }

  #end(): Promise<void> {
    this.#ending ??= this.#endAll();
    return this.#ending;
  }

  async #endAll(): Promise<void> {
    await this.#begun.catch(() => undefined);
    const { env, times } = this.#parts;
    let killAt = env.clock.monotonic() + times.graceMs;
    let signalled = false;
    while (!this.#closed && isAnyAlive(this.#mark, this.record.process)) {
      const now = env.clock.monotonic();
      if (!signalled || now >= killAt) {
        signalMarked(this.#mark, this.record.process, signalled ? 'SIGKILL' : 'SIGTERM');
        if (signalled) killAt = now + KILL_AGAIN_MS;
        signalled = true;
      }
      await pause(env.timers, EXIT_POLL_MS);
    }
    if (this.#closed) return;
    this.#gone = true;
    this.#parts.onChange('gone');
  }

  #armStart(): void {
    const { env, times } = this.#parts;
    const { startedAt, order } = this.record;
    const ms = order.timeout_ms ?? times.startTimeoutMs;
    // A clock that was set back must not make it longer.
    const left = Math.min(ms, startedAt + ms - env.clock.now());
    this.#stopStarting = env.timers.after(Math.max(0, left), () =>
      this.#fail('WORKER_START_TIMEOUT', this.#withReason(`it was not ready within ${ms} ms`)),
    );
  }

  #armDeadline(): void {
    const { env } = this.#parts;
    const at = this.record.drain?.deadlineAt;
    this.#stopDraining();
    if (at === undefined) return;
    this.#stopDraining = env.timers.after(Math.max(0, at - env.clock.now()), () =>
      this.#fail('WORKER_UNAVAILABLE', 'its time to drain is over'),
    );
  }

  /** Our own child says by itself that it has ended; another one is looked at. */
  #watch(adopted?: ProcessIdentity): void {
    this.#stopWatching = every(this.#parts.env.timers, PROCESS_POLL_MS, () => {
      trimLog(logPath(this.#parts.layout, this.id));
      if (!adopted || isAlive(adopted)) return;
      if (this.record.ready) this.#fail('WORKER_UNAVAILABLE', 'its process has ended');
      else this.#fail('WORKER_START_FAILED', this.#withReason('its process ended before it was ready'));
    });
  }

  #quiet(): void {
    this.#stopStarting();
    this.#stopDraining();
    this.#stopWatching();
    this.#line?.close();
  }

  #log(message: string): void {
    this.#parts.logger.info(message, { worker_id: this.id, model_ref: this.record.order.model_ref });
  }

  #complain(error: unknown): void {
    this.#parts.logger.error('the record of a worker could not be written', {
      worker_id: this.id,
      reason: placeOf(error),
    });
  }
}
