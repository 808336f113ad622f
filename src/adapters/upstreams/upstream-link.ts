/**
 * One upstream as the brain sees it: finds or starts its executor, tells it where the upstream is, and follows what it
 * reports. Every change becomes a new declaration of the backend. An executor that dies is started again; what it ran is
 * unknown then, and `on_unknown` of each job decides.
 */
import { WorkerBackend } from '../../backends/pool/worker-backend.ts';
import type { BackendInfo, BackendListener } from '../../core/ports/backend.ts';
import { type BackoffPolicy, backoffMs } from '../../kit/backoff.ts';
import { checker } from '../../kit/check.ts';
import type { Env } from '../../kit/env/env.ts';
import type { Logger } from '../../kit/logger.ts';
import { pause } from '../../kit/pause.ts';
import { poll } from '../../kit/poll.ts';
import { OrchdError, toOrchdError } from '../../model/errors.ts';
import { UpstreamState } from '../../model/upstream-wire.ts';
import { Outbound, type Target } from '../../wire/outbound.ts';
import {
  type Executor,
  endExecutor,
  findExecutor,
  isRunning,
  startExecutor,
  trimExecutorLog,
} from './executor-process.ts';
import { keepLastState, readLastState } from './last-state.ts';
import { orderOf } from './settings.ts';
import { type UpstreamBackend, upstreamInfo } from './upstream-info.ts';

export interface LinkOptions extends UpstreamBackend {
  readonly env: Env;
  readonly logger: Logger;
  /** The folder of its executor. */
  readonly folder: string;
  /** Streams to the executor: one for each job that it runs, and one for each that is read again. */
  readonly maxStreams: number;
}

/** How long a stop waits for the executor to hear the last acknowledgements, and how often it looks. */
const LAST_ACKS = { everyMs: 25, atMostMs: 1000 };
/** After this time without work, results that nobody asks for do not keep the executor of a former upstream alive. */
const COLLECT_MS = 60_000;
const POLL_WAIT_MS = 10_000;
const POLL_TIMEOUT_MS = 20_000;
const RETRY: BackoffPolicy = { baseDelayMs: 100, maxDelayMs: 15_000, jitter: 0.2 };
/** An executor that is alive and does not answer this often in a row is ended, and started again. */
const MAX_SILENT_POLLS = 20;

const checkState = checker(UpstreamState);
const NOT_CONFIGURED = 'it is not configured any more';

export class UpstreamLink {
  readonly #options: LinkOptions;
  readonly #outbound: Outbound;
  readonly #stop = new AbortController();
  readonly #firstReport = Promise.withResolvers<void>();
  #listener: BackendListener | undefined;
  #following: Promise<void> | undefined;
  #executor: Executor | undefined;
  #target: Target | undefined;
  #state: UpstreamState | undefined;
  #presented: BackendInfo | undefined;

  constructor(options: LinkOptions) {
    this.#options = options;
    const { maxStreams } = options;
    this.#outbound = new Outbound({
      timers: options.env.timers,
      limits: { maxStreams, maxCalls: maxStreams },
    });
  }

  /** Settles when the upstream has answered once, or is known to be away. */
  get firstReport(): Promise<void> {
    return this.#firstReport.promise;
  }

  /** Names of its models, as last reported. */
  get models(): readonly string[] {
    return this.#options.settings ? (this.#state?.models ?? []).map(({ id }) => id) : [];
  }

  start(listener: BackendListener): void {
    this.#listener = listener;
    this.#following = this.#run();
  }

  /** An executor with work goes on, and is found by the next brain. One without work ends. */
  async stop(): Promise<void> {
    this.#stop.abort();
    this.#firstReport.resolve();
    await this.#following;
    const { running = 0, unacknowledged = 0 } = (await this.#lastState()) ?? {};
    this.#outbound.close();
    if (this.#executor && running + unacknowledged === 0) endExecutor(this.#executor);
    else if (this.#executor)
      this.#options.logger.info('calls to an upstream go on; the next start collects their answers', {
        backend: this.#options.name,
        count: running + unacknowledged,
      });
  }

  /** Its connections are closed: the brain does not call it any more. */
  forget(): void {
    this.#target?.close();
  }

  async #run(): Promise<void> {
    const { env, settings } = this.#options;
    for (let failures = 0; !this.#stop.signal.aborted; ) {
      try {
        const executor = await this.#open();
        if (!executor) return this.#gone();
        if (settings) await this.#order(executor);
        await this.#follow(executor);
        failures = 0;
        if (!settings) return this.#gone();
      } catch (error) {
        if (this.#stop.signal.aborted) return;
        failures++;
        const { code, message } = toOrchdError(error);
        this.#report(this.#state, { code, message: `its executor does not run: ${message}` });
      }
      await pause(env.timers, backoffMs(RETRY, failures + 1, env.random.next()), this.#stop.signal);
    }
  }

  /** The living executor, or a new one; undefined where none is needed. */
  async #open(): Promise<Executor | undefined> {
    const { env, folder, settings } = this.#options;
    this.#state ??= await readLastState(env, folder);
    const found = await findExecutor(env, folder);
    const executor = found ?? (settings && (await startExecutor(env, folder)));
    this.#executor = executor;
    if (executor) this.#target = this.#outbound.to(executor.uri);
    return executor;
  }

  async #order({ secret }: Executor): Promise<void> {
    const { settings } = this.#options;
    if (!settings) return;
    const { status } = await this.#targetNow().request({
      method: 'PUT',
      path: '/upstream',
      headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
      body: JSON.stringify(orderOf(settings)),
    });
    if (status !== 204)
      throw new OrchdError('WORKER_PROTOCOL', `the executor of an upstream answered ${status}`);
  }

  /** Returns when the executor has ended, or is not needed any more. */
  async #follow(executor: Executor): Promise<void> {
    const { env, settings } = this.#options;
    let workedAt = env.clock.monotonic();
    let version: number | undefined;
    for (let silent = 0; !this.#stop.signal.aborted; ) {
      try {
        const state = await this.#ask(executor, version);
        version = state.version;
        silent = 0;
        this.#heard(state);
        if (settings) continue;
        if (state.running > 0) workedAt = env.clock.monotonic();
        const isCollected = state.unacknowledged === 0 || env.clock.monotonic() - workedAt > COLLECT_MS;
        if (state.running === 0 && isCollected) return endExecutor(executor);
        await pause(env.timers, RETRY.baseDelayMs, this.#stop.signal);
      } catch (error) {
        if (this.#stop.signal.aborted) return;
        if (!isRunning(executor)) throw new OrchdError('WORKER_UNAVAILABLE', 'it has ended');
        if (++silent > MAX_SILENT_POLLS) endExecutor(executor);
        if (silent > 1) this.#report(this.#state, toOrchdError(error).info());
        await pause(env.timers, backoffMs(RETRY, silent, env.random.next()), this.#stop.signal);
      }
    }
  }

  async #ask(executor: Executor, after: number | undefined): Promise<UpstreamState> {
    // Without settings nothing is waited for but the end of what runs.
    const wait =
      after === undefined || !this.#options.settings ? '' : `?after=${after}&wait_ms=${POLL_WAIT_MS}`;
    return this.#request(executor, `/upstream${wait}`, this.#stop.signal);
  }

  async #request({ secret }: Executor, path: string, signal?: AbortSignal): Promise<UpstreamState> {
    const { status, body } = await this.#targetNow().request({
      path,
      headers: { authorization: `Bearer ${secret}` },
      timeoutMs: POLL_TIMEOUT_MS,
      ...(signal && { signal }),
    });
    if (status !== 200)
      throw new OrchdError('WORKER_PROTOCOL', `the executor of an upstream answered ${status}`);
    return checkState(JSON.parse(body.toString()));
  }

  /** The state at a stop, when all acknowledgements that are under way have arrived. */
  async #lastState(): Promise<UpstreamState | undefined> {
    const executor = this.#executor;
    if (!executor || !isRunning(executor)) return undefined;
    let state = this.#state;
    await poll(this.#options.env, LAST_ACKS, async () => {
      state = await this.#request(executor, '/upstream').catch(() => state);
      return !state || state.running > 0 || state.unacknowledged === 0 || undefined;
    });
    return state;
  }

  #targetNow(): Target {
    if (this.#target) return this.#target;
    throw new OrchdError('WORKER_UNAVAILABLE');
  }

  #heard(state: UpstreamState): void {
    const { settings, env, folder } = this.#options;
    trimExecutorLog(folder);
    const isNews = JSON.stringify(state.models) !== JSON.stringify(this.#state?.models);
    this.#state = state;
    if (settings) this.#report(state, state.status === 'away' ? state.problem : undefined);
    else this.#present(state, NOT_CONFIGURED);
    if (state.status !== 'new') this.#firstReport.resolve();
    // Lost where it cannot be written: it is only for messages.
    if (isNews) void keepLastState(env, folder, state);
  }

  /** Declares the backend, and logs what has changed for people. */
  #report(state: UpstreamState | undefined, problem: UpstreamState['problem']): void {
    const { name, logger } = this.#options;
    const before = this.#presented;
    const outage =
      problem?.message ?? (state && state.status !== 'new' ? undefined : 'it has not answered yet');
    this.#present(state, outage);
    if (problem && before?.outage !== problem.message)
      logger.warn('an upstream cannot be used', {
        backend: name,
        error_code: problem.code,
        reason: problem.message,
      });
    else if (!problem && state?.status === 'up' && isChanged(before, this.#presented))
      logger.info('an upstream is used', { backend: name, count: state.models.length });
    if (problem) this.#firstReport.resolve();
  }

  #present(state: UpstreamState | undefined, outage: string | undefined): void {
    const info = upstreamInfo(this.#options, state, outage);
    if (this.#presented && !isChanged(this.#presented, info)) return;
    this.#presented = info;
    const { timers } = this.#options.env;
    const target = this.#target ?? this.#nowhere();
    this.#listener?.present(new WorkerBackend({ info, target, secret: this.#executor?.secret, timers }));
  }

  /** For an upstream without an executor: a closed target refuses every request without sending it. */
  #nowhere(): Target {
    const target = this.#outbound.to('http://127.0.0.1:1');
    target.close();
    return target;
  }

  /** Nothing runs for an upstream that is not configured any more; jobs that wait for it are told so. */
  #gone(): void {
    this.#executor = undefined;
    this.#target = undefined;
    if (this.#state && !this.#stop.signal.aborted) this.#present(this.#state, NOT_CONFIGURED);
  }
}

const textOf = (info: BackendInfo): string =>
  JSON.stringify({ ...info, contextLengths: [...(info.contextLengths ?? [])] });

const isChanged = (before: BackendInfo | undefined, after: BackendInfo | undefined): boolean =>
  !before || !after || textOf(before) !== textOf(after);
