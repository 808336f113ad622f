/**
 * One worker: its process, what is known of it, and how it ends.
 *
 * W1  Every step is on disk before it has an effect: the intent before the process is started, the end before it is
 *     killed. A manager that takes over goes on from there.
 * W2  What was promised of the device is held until no process of the worker lives any more.
 * W3  It is started once and never again: what has failed stays failed.
 *
 * What lasts of it is in its record; what this process does about it is in its phase.
 */
import type { Cancel } from '../../kit/env/env.ts';
import { every } from '../../kit/every.ts';
import { stableHash } from '../../kit/hash.ts';
import { isAlive, type ProcessIdentity } from '../../kit/process/identity.ts';
import { findLeader, isAnyAlive, type Mark } from '../../kit/process/marked.ts';
import { describeThrown } from '../../kit/redact.ts';
import { type ErrorCode, OrchdError } from '../../model/errors.ts';
import type { WorkerReady, WorkerState, WorkerStatus } from '../../model/pool-wire.ts';
import type { Commander } from '../../model/worker-wire.ts';
import type { Holder } from './accounts.ts';
import { endProcesses } from './end-processes.ts';
import { logPath, markOf, type WorkerRecord } from './layout.ts';
import { reasonIn } from './log-tail.ts';
import type { Ending, SpawnSpec } from './processes.ts';
import { lastBytes, spawnWorker, trimLog } from './processes.ts';
import { mismatchOf } from './ready-check.ts';
import { WorkerConnection } from './worker-connection.ts';
import { WorkerFile } from './worker-file.ts';
import type { WorkerParts } from './worker-parts.ts';
import type { WorkerPhase } from './worker-phase.ts';
import { workerView } from './worker-view.ts';

/** Between two looks at whether an adopted process lives, and whether a log has to be cut. */
const PROCESS_POLL_MS = 1000;
const LOG_TAIL_BYTES = 16 * 1024;

const GONE: readonly WorkerPhase['is'][] = ['gone', 'removing', 'removed'];
const GIVEN_UP = 'this worker was given up';
const NO_TIMER: Cancel = () => undefined;

export class ManagedWorker {
  readonly id: string;
  readonly #parts: WorkerParts;
  readonly #file: WorkerFile;
  readonly #mark: Mark;
  #phase: WorkerPhase = { is: 'new' };
  #begun: Promise<void> = Promise.resolve();
  /** By the clock that only grows; undefined as long as it was never ready. */
  #hasMemorySince: number | undefined;

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
    return GONE.includes(this.#phase.is);
  }

  get removed(): boolean {
    return this.#phase.is === 'removed';
  }

  get status(): WorkerStatus {
    const { error, stopped, drain, ready } = this.record;
    if (error) return 'failed';
    if (stopped || drain) return 'draining';
    if (!ready) return 'starting';
    return this.#phase.is === 'serving' && this.#phase.active > 0 ? 'busy' : 'ready';
  }

  get holder(): Holder {
    const { order, vramBytes } = this.record;
    return { id: this.id, gpu: order.gpu_id, vramBytes, hasItSince: this.#hasMemorySince };
  }

  view(withToken: boolean): WorkerState {
    return workerView(this.record, this.status, withToken);
  }

  /** Starts the process; settles when the intent is on disk and it runs, or has failed. */
  begin(spec: Omit<SpawnSpec, 'mark' | 'log' | 'cwd'>): Promise<void> {
    this.#phase = { is: 'beginning' };
    this.#begun = this.#begin(spec);
    return this.#begun;
  }

  async #begin(spec: Omit<SpawnSpec, 'mark' | 'log' | 'cwd'>): Promise<void> {
    const { layout } = this.#parts;
    await this.#file.save({});
    if (this.record.stopped) return;
    const log = logPath(layout, this.id);
    const spawned = await spawnWorker({ ...spec, mark: this.#mark, log, cwd: layout.folder }, (ending) =>
      this.#exited(ending),
    );
    if (spawned.is === 'failed') {
      this.#fail('WORKER_START_FAILED', `the process could not be started (${spawned.why})`);
      return;
    }
    if (this.#phase.is === 'beginning') this.#awaitReady(this.#watch());
    // Not written, it is found again by its mark.
    await this.#file.keep({ process: spawned.process }).catch((error: unknown) => this.#complain(error));
  }

  /** Takes over what an earlier manager has started. */
  async adopt(): Promise<void> {
    const { process: known, error, stopped, ready } = this.record;
    const found = known ?? findLeader(this.#mark);
    const lives = found !== undefined && isAlive(found);
    if (found && !known) await this.#file.save({ process: found });
    if (ready) this.#hasMemorySince = Number.NEGATIVE_INFINITY;
    // The first thing that is said of it must be right: what nobody has is free.
    if (!lives && !isAnyAlive(this.#mark, found)) this.#phase = { is: 'gone' };
    if (stopped) return void this.#leave();
    if (error) return void this.#end();
    if (!lives) {
      if (ready) this.#fail('WORKER_UNAVAILABLE', 'its process ended while no manager watched it');
      else
        this.#fail('WORKER_START_FAILED', this.#withReason('the manager ended while it was being started'));
      return;
    }
    if (ready) await this.#serve(ready.uri, this.#watch(found), this.#drainDeadline());
    else this.#awaitReady(this.#watch(found));
  }

  /** The worker says that it can be used. */
  async ready(body: WorkerReady): Promise<void> {
    const { worker_id: _, model_ref: _model, ...said } = body;
    const { vramBytes, error, stopped, ready } = this.record;
    if (error || stopped) {
      // It lives although it was given up.
      if (this.#phase.is === 'gone') void this.#end();
      else if (this.gone) void this.#endProcesses();
      throw new OrchdError('ILLEGAL_STATE', GIVEN_UP);
    }
    if (ready) {
      if (stableHash(ready) === stableHash(said)) return this.#file.settled();
      throw new OrchdError('ILLEGAL_STATE', 'this worker is ready already, and was another one');
    }
    const mismatch = mismatchOf(body, this.record, this.#parts);
    if (mismatch) {
      this.#fail('WORKER_START_FAILED', mismatch.why);
      throw new OrchdError('INVALID_PARAMS', mismatch.why, { field: mismatch.field });
    }
    await this.#file.save({
      ready: said,
      readyAt: this.#parts.env.clock.now(),
      vramBytes: Math.max(vramBytes, said.vram_bytes),
    });
    const phase = this.#phase;
    if (phase.is !== 'starting') throw new OrchdError('ILLEGAL_STATE', GIVEN_UP);
    phase.startDeadline();
    this.#hasMemorySince = this.#parts.env.clock.monotonic();
    void this.#serve(said.uri, phase.watch, phase.drainDeadline);
    this.#parts.onChange('ready');
    this.#log('a worker is ready');
  }

  async drain(deadlineMs: number | undefined, by: Commander): Promise<void> {
    if (this.record.error) throw new OrchdError('ILLEGAL_STATE', 'this worker has failed');
    if (this.record.stopped) return;
    const { now } = this.#parts.env.clock;
    const deadline = deadlineMs === undefined ? {} : { deadlineAt: now() + deadlineMs };
    await this.#file.save({ drain: { ...deadline, by } });
    const phase = this.#phase;
    if (phase.is === 'starting' || phase.is === 'serving') {
      phase.drainDeadline();
      this.#phase = { ...phase, drainDeadline: this.#drainDeadline() };
    }
    this.#parts.onChange('status');
    if (phase.is === 'serving') await phase.connection.drain(by);
  }

  async stop(): Promise<void> {
    if (this.#isLeaving()) return this.#file.settled();
    await this.#file.save({ stopped: true });
    if (this.#isLeaving()) return;
    this.#log('a worker is stopped');
    this.#parts.onChange('status');
    void this.#leave();
  }

  /** Lets go of it; its process goes on. */
  async close(): Promise<void> {
    this.#enter({ is: 'closed' });
    await this.#begun.catch(() => undefined);
    await this.#file.settled().catch(() => undefined);
  }

  /** Settles when everything of it is gone, whether or not that can be written down. */
  async end(): Promise<void> {
    await this.stop().catch((error: unknown) => this.#complain(error));
    await this.#leave();
  }

  /** Stops the timers and the connection of the phase before. */
  #enter(phase: WorkerPhase): void {
    const former = this.#phase;
    this.#phase = phase;
    if (former.is === 'starting') former.startDeadline();
    if (former.is !== 'starting' && former.is !== 'serving') return;
    former.watch();
    former.drainDeadline();
    if (former.is === 'serving') void former.connection.stop();
  }

  #awaitReady(watch: Cancel): void {
    const startDeadline = this.#startDeadline();
    this.#enter({ is: 'starting', startDeadline, watch, drainDeadline: this.#drainDeadline() });
  }

  /** Takes over the timers of the phase before; settles when the worker was asked for the first time how it is. */
  async #serve(uri: string, watch: Cancel, drainDeadline: Cancel): Promise<void> {
    const connection = new WorkerConnection(this.#parts, uri, this.record.secret, this.id, {
      onActive: (active) => this.#hasInHand(active),
      onLost: (why) => this.#fail('WORKER_UNAVAILABLE', why),
    });
    this.#phase = { is: 'serving', connection, active: 0, watch, drainDeadline };
    const { drain } = this.record;
    await Promise.all([connection.start(), drain && connection.drain(drain.by)]);
  }

  #hasInHand(active: number): void {
    const phase = this.#phase;
    if (phase.is !== 'serving') return;
    this.#phase = { ...phase, active };
    if (active > 0 !== phase.active > 0) this.#parts.onChange('status');
  }

  #exited({ code, signal }: Ending): void {
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
    if (this.record.error || this.record.stopped || this.#phase.is === 'closed') return;
    // On disk before the process is ended (W1); where the disk fails it has failed, and is ended, all the same.
    const written = this.#file
      .keep({ error: { code, message } })
      .catch((error: unknown) => this.#complain(error));
    this.#parts.logger.warn('a worker has failed', { worker_id: this.id, error_code: code, reason: message });
    void this.#end(written);
    this.#parts.onChange('status');
  }

  #isLeaving(): boolean {
    const phase = this.#phase;
    return phase.is === 'removing' || phase.is === 'removed' || (phase.is === 'ending' && phase.removes);
  }

  /** Ends it where it lives, and removes it then; settles when both are done. */
  #leave(): Promise<void> {
    const phase = this.#phase;
    if (phase.is === 'removed' || phase.is === 'closed') return Promise.resolve();
    if (phase.is === 'removing') return phase.done;
    if (phase.is === 'gone') return this.#remove();
    const done = phase.is === 'ending' ? phase.done : this.#end();
    this.#phase = { is: 'ending', removes: true, done };
    return done;
  }

  /** Ends its processes, once `written` has settled. One that is gone stays so unless something of it is found alive. */
  #end(written: Promise<void> = Promise.resolve()): Promise<void> {
    if (this.#phase.is === 'ending') return this.#phase.done;
    const done = written.then(() => this.#endAll());
    if (this.#phase.is !== 'gone' || isAnyAlive(this.#mark, this.record.process))
      this.#enter({ is: 'ending', removes: false, done });
    return done;
  }

  async #endAll(): Promise<void> {
    await this.#begun.catch(() => undefined);
    if (!(await this.#endProcesses())) return;
    const phase = this.#phase;
    if (phase.is === 'ending' && phase.removes) return this.#remove();
    if (phase.is === 'ending') this.#phase = { is: 'gone' };
    this.#parts.onChange('gone');
  }

  /** False when this manager has let go of it before. */
  #endProcesses(): Promise<boolean> {
    return endProcesses(this.#parts, this.#mark, this.record.process, () => this.#phase.is !== 'closed');
  }

  #remove(): Promise<void> {
    const done = this.#removeFile();
    this.#phase = { is: 'removing', done };
    this.#parts.onChange('gone');
    return done;
  }

  async #removeFile(): Promise<void> {
    await this.#file.remove().catch((error: unknown) => this.#complain(error));
    if (this.#phase.is === 'removing') this.#phase = { is: 'removed' };
    this.#parts.onChange('gone');
  }

  #startDeadline(): Cancel {
    const { env, times } = this.#parts;
    const { startedAt, order } = this.record;
    const ms = order.timeout_ms ?? times.startTimeoutMs;
    // A clock that was set back must not make it longer.
    const left = Math.min(ms, startedAt + ms - env.clock.now());
    return env.timers.after(Math.max(0, left), () =>
      this.#fail('WORKER_START_TIMEOUT', this.#withReason(`it was not ready within ${ms} ms`)),
    );
  }

  #drainDeadline(): Cancel {
    const { clock, timers } = this.#parts.env;
    const at = this.record.drain?.deadlineAt;
    if (at === undefined) return NO_TIMER;
    return timers.after(Math.max(0, at - clock.now()), () =>
      this.#fail('WORKER_UNAVAILABLE', 'its time to drain is over'),
    );
  }

  /** Our own child says by itself that it has ended; an adopted process is looked at. */
  #watch(adopted?: ProcessIdentity): Cancel {
    return every(this.#parts.env.timers, PROCESS_POLL_MS, () => {
      trimLog(logPath(this.#parts.layout, this.id));
      if (!adopted || isAlive(adopted)) return;
      if (this.record.ready) this.#fail('WORKER_UNAVAILABLE', 'its process has ended');
      else this.#fail('WORKER_START_FAILED', this.#withReason('its process ended before it was ready'));
    });
  }

  #log(message: string): void {
    this.#parts.logger.info(message, { worker_id: this.id, model_ref: this.record.order.model_ref });
  }

  #complain(error: unknown): void {
    this.#parts.logger.error('the record of a worker could not be written', {
      worker_id: this.id,
      reason: describeThrown(error),
    });
  }
}
