/**
 * One worker of a pool manager: its process, its record on disk, and its end.
 *
 * W1  Every step is on disk before it has an effect: the record before the process is started, the error or stop before
 *     the process is killed. The next manager continues from the record.
 * W2  The worker's device memory stays reserved until none of its processes is alive.
 * W3  A worker is started once: a failed one stays failed.
 *
 * The record (WorkerFile) survives the manager; the phase (WorkerPhase) is what this process does with the worker.
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
import type { MeasuredMemory, WorkerMemory } from './device-memory.ts';
import { endProcesses } from './end-processes.ts';
import { logPath, type ManagedWorkerRecord, markOf } from './layout.ts';
import { reasonIn } from './log-tail.ts';
import type { ProcessExit, SpawnSpec } from './processes.ts';
import { lastBytes, spawnWorker, trimLog } from './processes.ts';
import { mismatchOf } from './ready-check.ts';
import { WorkerConnection } from './worker-connection.ts';
import type { WorkerContext } from './worker-context.ts';
import { WorkerFile } from './worker-file.ts';
import type { WorkerPhase } from './worker-phase.ts';
import { memoryOf, workerView } from './worker-view.ts';

/** How often the log is trimmed, and an adopted process checked to be alive. */
const PROCESS_POLL_MS = 1000;
const LOG_TAIL_BYTES = 16 * 1024;

const GONE_PHASES: readonly WorkerPhase['is'][] = ['gone', 'removing', 'removed'];
const GIVEN_UP = 'this worker was given up';
const NO_TIMER: Cancel = () => undefined;

export class ManagedWorker {
  readonly id: string;
  readonly #context: WorkerContext;
  readonly #file: WorkerFile;
  readonly #mark: Mark;
  #phase: WorkerPhase = { is: 'new' };
  #begun: Promise<void> = Promise.resolve();
  /** Since when the worker uses its device memory, by the monotonic clock; undefined until it was ready. */
  #usesMemorySince: number | undefined;
  #measured: MeasuredMemory | undefined;

  constructor(context: WorkerContext, record: ManagedWorkerRecord) {
    this.id = record.id;
    this.#context = context;
    this.#file = new WorkerFile(context.env, context.layout, record);
    this.#mark = markOf(context.registry, record.id);
  }

  get record(): ManagedWorkerRecord {
    return this.#file.record;
  }

  /** Settles when the start order is on disk and carried out. */
  get begun(): Promise<void> {
    return this.#begun;
  }

  /** No process of the worker is alive. */
  get gone(): boolean {
    return GONE_PHASES.includes(this.#phase.is);
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

  get memory(): WorkerMemory {
    return memoryOf(this.record, this.#measured, this.#usesMemorySince);
  }

  get pid(): number | undefined {
    return this.record.process?.pid;
  }

  /** Takes a new figure of its device memory. A difference is kept on disk, for the next manager. */
  measured(memory: MeasuredMemory, how: 'by process' | 'by difference'): void {
    const isNew = this.#measured?.bytes !== memory.bytes;
    this.#measured = memory;
    if (how === 'by difference')
      this.#file
        .keep({ measuredBytes: memory.bytes })
        .catch((error: unknown) => this.#logWriteFailure(error));
    if (isNew) this.#context.onChange('status');
  }

  view(withToken: boolean): WorkerState {
    return workerView(this.record, this.status, this.memory.measured?.bytes, withToken);
  }

  /** Starts the process; settles when the record is on disk and the process runs or could not be started. */
  begin(spec: Omit<SpawnSpec, 'mark' | 'log' | 'cwd'>): Promise<void> {
    this.#phase = { is: 'beginning' };
    this.#begun = this.#begin(spec);
    return this.#begun;
  }

  async #begin(spec: Omit<SpawnSpec, 'mark' | 'log' | 'cwd'>): Promise<void> {
    const { layout } = this.#context;
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
    // Where this write fails, the process is found again by its mark (P2 of layout.ts).
    await this.#file
      .keep({ process: spawned.process })
      .catch((error: unknown) => this.#logWriteFailure(error));
  }

  /** Takes over the process of a worker that an earlier manager has started. */
  async adopt(): Promise<void> {
    const { process: known, error, stopped, ready } = this.record;
    const found = known ?? findLeader(this.#mark);
    const lives = found !== undefined && isAlive(found);
    if (found && !known) await this.#file.save({ process: found });
    if (ready) this.#usesMemorySince = Number.NEGATIVE_INFINITY;
    // The phase must be right before the first state is sent: a dead worker reserves no memory.
    if (!lives && !isAnyAlive(this.#mark, found)) this.#phase = { is: 'gone' };
    if (stopped) return void this.#endAndRemove();
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

  /** Called when the worker's process reports that it can be used. */
  async ready(body: WorkerReady): Promise<void> {
    const { worker_id: _, model_ref: _model, ...report } = body;
    const { vramBytes, error, stopped, ready } = this.record;
    if (error || stopped) {
      // A process of the worker is alive although the worker has failed or was stopped.
      if (this.#phase.is === 'gone') void this.#end();
      else if (this.gone) void this.#endProcesses();
      throw new OrchdError('ILLEGAL_STATE', GIVEN_UP);
    }
    if (ready) {
      if (stableHash(ready) === stableHash(report)) return this.#file.settled();
      throw new OrchdError('ILLEGAL_STATE', 'this worker is ready already, and was another one');
    }
    const mismatch = mismatchOf(body, this.record, this.#context);
    if (mismatch) {
      this.#fail('WORKER_START_FAILED', mismatch.why);
      throw new OrchdError('INVALID_PARAMS', mismatch.why, { field: mismatch.field });
    }
    await this.#file.save({
      ready: report,
      readyAt: this.#context.env.clock.now(),
      vramBytes: Math.max(vramBytes, report.vram_bytes ?? 0),
    });
    const phase = this.#phase;
    if (phase.is !== 'starting') throw new OrchdError('ILLEGAL_STATE', GIVEN_UP);
    phase.startDeadline();
    this.#usesMemorySince = this.#context.env.clock.monotonic();
    void this.#serve(report.uri, phase.watch, phase.drainDeadline);
    this.#context.onChange('ready');
    this.#log('a worker is ready');
  }

  async drain(deadlineMs: number | undefined, by: Commander): Promise<void> {
    if (this.record.error) throw new OrchdError('ILLEGAL_STATE', 'this worker has failed');
    if (this.record.stopped) return;
    await this.#refuseWhileOthersUse(by);
    const { now } = this.#context.env.clock;
    const deadline = deadlineMs === undefined ? {} : { deadlineAt: now() + deadlineMs };
    await this.#file.save({ drain: { ...deadline, by } });
    const phase = this.#phase;
    if (phase.is === 'starting' || phase.is === 'serving') {
      phase.drainDeadline();
      this.#phase = { ...phase, drainDeadline: this.#drainDeadline() };
    }
    this.#context.onChange('status');
    if (phase.is === 'serving') await phase.connection.drain(by);
  }

  /** Stops the worker. The manager itself stops it without `by`; a brain may not while the worker runs jobs of others. */
  async stop(by?: Commander): Promise<void> {
    if (this.#isBeingRemoved()) return this.#file.settled();
    if (by) await this.#refuseWhileOthersUse(by);
    await this.#file.save({ stopped: true });
    if (this.#isBeingRemoved()) return;
    this.#log('a worker is stopped');
    this.#context.onChange('status');
    void this.#endAndRemove();
  }

  /**
   * Two brains may use one pool: a restored copy and its original, say. A worker that looks idle to one of them may run
   * jobs of the other.
   */
  async #refuseWhileOthersUse(by: Commander): Promise<void> {
    const phase = this.#phase;
    if (phase.is !== 'serving' || this.record.stopped) return;
    const running = await phase.connection.runningForOthers(by);
    if (running === 0) return;
    throw new OrchdError('WORKER_BUSY', `this worker runs ${running} jobs of another brain`);
  }

  /** Stops managing the worker; its process goes on, for the next manager. */
  async close(): Promise<void> {
    this.#enter({ is: 'closed' });
    await this.#begun.catch(() => undefined);
    await this.#file.settled().catch(() => undefined);
  }

  /** Stops the worker even where the disk fails; settles when its processes are gone and its record is removed. */
  async end(): Promise<void> {
    await this.stop().catch((error: unknown) => this.#logWriteFailure(error));
    await this.#endAndRemove();
  }

  /** Changes the phase, and stops the timers and the connection of the former phase. */
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

  /** Takes over the timers of the former phase; settles after the first health check. */
  async #serve(uri: string, watch: Cancel, drainDeadline: Cancel): Promise<void> {
    const connection = new WorkerConnection(this.#context, uri, this.record.secret, this.id, {
      onActive: (active) => this.#setActive(active),
      onLost: (why) => this.#fail('WORKER_UNAVAILABLE', why),
    });
    this.#phase = { is: 'serving', connection, active: 0, watch, drainDeadline };
    const { drain } = this.record;
    await Promise.all([connection.start(), drain && connection.drain(drain.by)]);
  }

  #setActive(active: number): void {
    const phase = this.#phase;
    if (phase.is !== 'serving') return;
    this.#phase = { ...phase, active };
    if (active > 0 !== phase.active > 0) this.#context.onChange('status');
  }

  #exited({ code, signal }: ProcessExit): void {
    const how = signal === null ? `code ${code}` : `signal ${signal}`;
    if (this.record.ready) this.#fail('WORKER_UNAVAILABLE', `its process ended with ${how}`);
    else
      this.#fail(
        'WORKER_START_FAILED',
        this.#withReason(`its process ended with ${how} before it was ready`),
      );
  }

  #withReason(what: string): string {
    const log = lastBytes(logPath(this.#context.layout, this.id), LOG_TAIL_BYTES);
    const reason = reasonIn(log, [this.record.secret]);
    return reason === '' ? what : `${what}: ${reason}`;
  }

  #fail(code: ErrorCode, message: string): void {
    if (this.record.error || this.record.stopped || this.#phase.is === 'closed') return;
    // The error is on disk before the process is ended (W1). Where the disk fails, the worker is ended all the same.
    const written = this.#file
      .keep({ error: { code, message } })
      .catch((error: unknown) => this.#logWriteFailure(error));
    this.#context.logger.warn('a worker has failed', {
      worker_id: this.id,
      error_code: code,
      reason: message,
    });
    void this.#end(written);
    this.#context.onChange('status');
  }

  #isBeingRemoved(): boolean {
    const phase = this.#phase;
    return phase.is === 'removing' || phase.is === 'removed' || (phase.is === 'ending' && phase.removes);
  }

  /** Ends the processes of the worker, then removes its record; settles when both are done. */
  #endAndRemove(): Promise<void> {
    const phase = this.#phase;
    if (phase.is === 'removed' || phase.is === 'closed') return Promise.resolve();
    if (phase.is === 'removing') return phase.done;
    if (phase.is === 'gone') return this.#remove();
    const done = phase.is === 'ending' ? phase.done : this.#end();
    this.#phase = { is: 'ending', removes: true, done };
    return done;
  }

  /** Ends the processes once `written` has settled. A worker in phase `gone` stays there unless a process is found alive. */
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
    this.#context.onChange('gone');
  }

  /** False when the worker was closed before its processes had ended. */
  #endProcesses(): Promise<boolean> {
    return endProcesses(this.#context, this.#mark, this.record.process, () => this.#phase.is !== 'closed');
  }

  #remove(): Promise<void> {
    const done = this.#removeFile();
    this.#phase = { is: 'removing', done };
    this.#context.onChange('gone');
    return done;
  }

  async #removeFile(): Promise<void> {
    await this.#file.remove().catch((error: unknown) => this.#logWriteFailure(error));
    if (this.#phase.is === 'removing') this.#phase = { is: 'removed' };
    this.#context.onChange('gone');
  }

  #startDeadline(): Cancel {
    const { env, times } = this.#context;
    const { startedAt, order } = this.record;
    const ms = order.timeout_ms ?? times.startTimeoutMs;
    // A wall clock that was set back must not lengthen the wait.
    const left = Math.min(ms, startedAt + ms - env.clock.now());
    return env.timers.after(Math.max(0, left), () =>
      this.#fail('WORKER_START_TIMEOUT', this.#withReason(`it was not ready within ${ms} ms`)),
    );
  }

  #drainDeadline(): Cancel {
    const { clock, timers } = this.#context.env;
    const at = this.record.drain?.deadlineAt;
    if (at === undefined) return NO_TIMER;
    return timers.after(Math.max(0, at - clock.now()), () =>
      this.#fail('WORKER_UNAVAILABLE', 'its time to drain is over'),
    );
  }

  /** Trims the log, and checks an adopted process; the end of our own child is reported by its `exit` event. */
  #watch(adopted?: ProcessIdentity): Cancel {
    return every(this.#context.env.timers, PROCESS_POLL_MS, () => {
      trimLog(logPath(this.#context.layout, this.id));
      if (!adopted || isAlive(adopted)) return;
      if (this.record.ready) this.#fail('WORKER_UNAVAILABLE', 'its process has ended');
      else this.#fail('WORKER_START_FAILED', this.#withReason('its process ended before it was ready'));
    });
  }

  #log(message: string): void {
    this.#context.logger.info(message, { worker_id: this.id, model_ref: this.record.order.model_ref });
  }

  #logWriteFailure(error: unknown): void {
    this.#context.logger.error('the record of a worker could not be written', {
      worker_id: this.id,
      reason: describeThrown(error),
    });
  }
}
