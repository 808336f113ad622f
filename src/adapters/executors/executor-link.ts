/**
 * Finds or starts an executor, tells it what it is for, and follows what it reports, by long polls. An executor that dies
 * is started again. What its reports mean is up to the listener.
 */
import { type BackoffPolicy, backoffMs } from '../../kit/backoff.ts';
import type { Env } from '../../kit/env/env.ts';
import { pause } from '../../kit/pause.ts';
import { poll } from '../../kit/poll.ts';
import { type ErrorCode, OrchdError, toOrchdError } from '../../model/errors.ts';
import { Outbound, type Target } from '../../wire/outbound.ts';
import type { Executor, ExecutorHost } from './executor-host.ts';

/** The fields that the report of every executor has. */
export interface ExecutorReport {
  readonly version: number;
  readonly running: number;
  readonly unacknowledged: number;
}

export interface LinkProblem {
  readonly code: ErrorCode;
  readonly message: string;
}

export interface LinkListener<Report extends ExecutorReport> {
  /** There is a living executor; called before its first report. */
  onOpen?(executor: Executor): void;
  onReport(report: Report): void;
  /** It cannot be started, or does not answer. */
  onProblem(problem: LinkProblem): void;
  /** It is not needed any more, and nothing runs there. */
  onGone(): void;
}

export interface LinkOptions<Report extends ExecutorReport> {
  readonly env: Env;
  readonly host: ExecutorHost;
  /** The route by which it is told what it is for (PUT), and reports (GET). */
  readonly path: string;
  readonly read: (body: unknown) => Report;
  /** What it is told; undefined: nothing. */
  readonly order?: (() => object) | undefined;
  /** Without it, the executor of an earlier start is followed until nothing runs there. */
  readonly isNeeded: boolean;
  /** Whether it still has work that must not be ended with it. */
  readonly hasWork: (report: Report) => boolean;
  /** Streams to the executor: one for each job that it runs, and one for each that is read again. */
  readonly maxStreams: number;
  readonly listener: LinkListener<Report>;
}

/** How long a stop waits for the executor to hear the last acknowledgements, and how often it looks. */
const LAST_ACKS = { everyMs: 25, atMostMs: 1000 };
/** After this time without work, results that nobody asks for do not keep an executor that is not needed alive. */
const COLLECT_MS = 60_000;
const POLL_WAIT_MS = 10_000;
const POLL_TIMEOUT_MS = 20_000;
const RETRY: BackoffPolicy = { baseDelayMs: 100, maxDelayMs: 15_000, jitter: 0.2 };
/** An executor that leaves so many polls in a row unanswered is ended, if we have started it, and started again. */
const MAX_SILENT_POLLS = 20;

export class ExecutorLink<Report extends ExecutorReport> {
  readonly #options: LinkOptions<Report>;
  readonly #outbound: Outbound;
  readonly #stop = new AbortController();
  #following: Promise<void> | undefined;
  #executor: Executor | undefined;
  #target: Target | undefined;
  #report: Report | undefined;
  /** Aborted to end the current poll, because the executor has to be told something else. */
  #nudge = new AbortController();
  #isOrderDue = false;

  constructor(options: LinkOptions<Report>) {
    this.#options = options;
    const { maxStreams } = options;
    this.#outbound = new Outbound({
      timers: options.env.timers,
      limits: { maxStreams, maxCalls: maxStreams },
    });
  }

  get executor(): Executor | undefined {
    return this.#executor;
  }

  get isStopped(): boolean {
    return this.#stop.signal.aborted;
  }

  start(): void {
    this.#following = this.#run();
  }

  /**
   * Stops following, and ends an executor without work. One with work goes on: resolves to its last report. One that does
   * not answer may have work, and is left alone too.
   */
  async stop(): Promise<Report | undefined> {
    this.#stop.abort();
    await this.#following;
    const last = await this.#lastReport();
    this.#outbound.close();
    if (!last || this.#options.hasWork(last)) return last;
    this.#options.host.end();
    return undefined;
  }

  /** Tells a living executor again what it is for: `order` returns something else by now. */
  reorder(): void {
    this.#isOrderDue = true;
    this.#nudge.abort();
  }

  /** A new target for the executor. Without one it is closed, and refuses every request without sending it. */
  target(): Target {
    const target = this.#outbound.to(this.#executor?.uri ?? 'http://127.0.0.1:1');
    if (!this.#executor) target.close();
    return target;
  }

  async #run(): Promise<void> {
    const { env, host, isNeeded, listener } = this.#options;
    for (let failures = 0; !this.isStopped; ) {
      try {
        const executor = await host.open(isNeeded);
        if (!executor) return this.#gone();
        this.#opened(executor);
        await this.#order();
        await this.#follow();
        failures = 0;
        if (!isNeeded) return this.#gone();
      } catch (error) {
        if (this.isStopped) return;
        failures++;
        if (!host.isRunning) this.#disconnect();
        const { code, message } = toOrchdError(error);
        listener.onProblem({ code, message });
      }
      await pause(env.timers, backoffMs(RETRY, failures + 1, env.random.next()), this.#stop.signal);
    }
  }

  #opened(executor: Executor): void {
    this.#target?.close();
    this.#executor = executor;
    this.#target = this.#outbound.to(executor.uri);
    this.#options.listener.onOpen?.(executor);
  }

  /** Nothing is sent to the address of a process that has ended: another program may listen there by now. */
  #disconnect(): void {
    this.#executor = undefined;
    this.#target = undefined;
    this.#outbound.close();
  }

  #gone(): void {
    this.#disconnect();
    if (!this.isStopped) this.#options.listener.onGone();
  }

  async #order(): Promise<void> {
    const { order, path, host } = this.#options;
    if (!order) return;
    this.#isOrderDue = false;
    const { status } = await this.#targetNow().request({
      method: 'PUT',
      path,
      headers: { ...this.#headers(), 'content-type': 'application/json' },
      body: JSON.stringify(order()),
    });
    if (status >= 300) throw new OrchdError('WORKER_PROTOCOL', `${host.what} answered ${status}`);
  }

  /** Returns when the executor has ended, or is not needed any more. */
  async #follow(): Promise<void> {
    const { env, host, listener } = this.#options;
    const rest = new RestingTime(env);
    let version: number | undefined;
    for (let silent = 0; !this.isStopped; ) {
      this.#nudge = new AbortController();
      // An order that fails is repeated after the next `open`, by `#run`.
      if (this.#isOrderDue) await this.#order();
      try {
        const report = await this.#ask(version);
        version = report.version;
        silent = 0;
        host.tidy();
        this.#report = report;
        listener.onReport(report);
        if (await this.#isDone(report, rest)) return host.end();
      } catch (error) {
        if (this.isStopped) return;
        if (this.#nudge.signal.aborted) continue;
        // A server that was started again counts its versions anew.
        version = undefined;
        if (!host.isRunning) throw new OrchdError('WORKER_UNAVAILABLE', `${host.what} has ended`);
        if (++silent > MAX_SILENT_POLLS) {
          host.end();
          throw error;
        }
        if (silent > 1) listener.onProblem(toOrchdError(error));
        await pause(env.timers, backoffMs(RETRY, silent, env.random.next()), this.#stop.signal);
      }
    }
  }

  /** Whether an executor that is not needed any more has nothing left that somebody may ask for. */
  async #isDone(report: Report, rest: RestingTime): Promise<boolean> {
    const { env, isNeeded, hasWork } = this.#options;
    if (isNeeded) return false;
    const restedMs = rest.note(report.running > 0);
    if (!hasWork(report)) return true;
    if (report.running === 0 && report.unacknowledged > 0 && restedMs > COLLECT_MS) return true;
    await pause(env.timers, RETRY.baseDelayMs, this.#stop.signal);
    return false;
  }

  #ask(after: number | undefined): Promise<Report> {
    // One that is not needed is waited for only until what runs there has ended.
    const wait =
      after === undefined || !this.#options.isNeeded ? '' : `?after=${after}&wait_ms=${POLL_WAIT_MS}`;
    return this.#request(wait, AbortSignal.any([this.#stop.signal, this.#nudge.signal]));
  }

  async #request(query: string, signal?: AbortSignal): Promise<Report> {
    const { path, read, host } = this.#options;
    const { status, body } = await this.#targetNow().request({
      path: path + query,
      headers: this.#headers(),
      timeoutMs: POLL_TIMEOUT_MS,
      ...(signal && { signal }),
    });
    if (status === 401 || status === 403)
      throw new OrchdError('UPSTREAM_KEY_REFUSED', `${host.what} does not accept our token`);
    if (status !== 200) throw new OrchdError('WORKER_PROTOCOL', `${host.what} answered ${status}`);
    return read(JSON.parse(body.toString()));
  }

  /** The report at a stop, when all acknowledgements that are under way have arrived. */
  async #lastReport(): Promise<Report | undefined> {
    if (!this.#executor || !this.#options.host.isRunning) return undefined;
    let report = this.#report;
    await poll(this.#options.env, LAST_ACKS, async () => {
      report = await this.#request('').catch(() => report);
      return !report || report.running > 0 || report.unacknowledged === 0 || undefined;
    });
    return report;
  }

  #targetNow(): Target {
    if (this.#target) return this.#target;
    throw new OrchdError('WORKER_UNAVAILABLE');
  }

  #headers(): Record<string, string> {
    const secret = this.#executor?.secret;
    return secret === undefined ? {} : { authorization: `Bearer ${secret}` };
  }
}

/** How long nothing has run. */
class RestingTime {
  readonly #env: Env;
  #since: number;

  constructor(env: Env) {
    this.#env = env;
    this.#since = env.clock.monotonic();
  }

  note(isWorking: boolean): number {
    const now = this.#env.clock.monotonic();
    if (isWorking) this.#since = now;
    return now - this.#since;
  }
}
