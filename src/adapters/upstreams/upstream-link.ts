/**
 * One upstream as the brain sees it: its executor is told where the upstream is, and every change that it reports becomes
 * a new declaration of the backend. What an executor ran that has died is unknown, and `on_unknown` of each job decides.
 */
import { ExecutorBackend } from '../../backends/executor/executor-backend.ts';
import { WORKER_PROTOCOL } from '../../backends/pool/worker-protocol.ts';
import type { BackendInfo, BackendListener } from '../../core/ports/backend.ts';
import {
  EXECUTOR_PROGRAM,
  LAUNCH_VARIABLE,
  LEDGER_VARIABLE,
  TOKEN_VARIABLE,
} from '../../daemons/upstream/layout.ts';
import { checker } from '../../kit/check.ts';
import type { Env } from '../../kit/env/env.ts';
import type { Logger } from '../../kit/logger.ts';
import { UpstreamState } from '../../model/upstream-wire.ts';
import type { Target } from '../../wire/outbound.ts';
import { isChanged } from '../executors/declaration.ts';
import { ExecutorLink, type LinkListener, type LinkProblem } from '../executors/executor-link.ts';
import { ExecutorProcess, type ExecutorProgram } from '../executors/executor-process.ts';
import { keepLastState, readLastState } from '../executors/last-state.ts';
import { orderOf } from './settings.ts';
import { type UpstreamBackend, upstreamInfo } from './upstream-info.ts';

export interface UpstreamLinkOptions extends UpstreamBackend {
  readonly env: Env;
  readonly logger: Logger;
  /** The folder of its executor. */
  readonly folder: string;
  /** Streams to the executor: one for each job that it runs, and one for each that is read again. */
  readonly maxStreams: number;
}

const PROGRAM: ExecutorProgram = {
  what: 'the executor of the upstream',
  file: EXECUTOR_PROGRAM,
  launchVariable: LAUNCH_VARIABLE,
  tokenVariable: TOKEN_VARIABLE,
  passedVariables: [LEDGER_VARIABLE],
};

const readState = checker(UpstreamState);
const NOT_CONFIGURED = 'it is not configured any more';

export class UpstreamLink implements LinkListener<UpstreamState> {
  readonly #options: UpstreamLinkOptions;
  readonly #link: ExecutorLink<UpstreamState>;
  readonly #firstReport = Promise.withResolvers<void>();
  #listener: BackendListener | undefined;
  #starting: Promise<void> | undefined;
  #target: Target | undefined;
  #state: UpstreamState | undefined;
  #presented: BackendInfo | undefined;

  constructor(options: UpstreamLinkOptions) {
    const { env, folder, settings, maxStreams } = options;
    this.#options = options;
    this.#link = new ExecutorLink({
      env,
      host: new ExecutorProcess(env, folder, PROGRAM),
      path: '/upstream',
      read: readState,
      order: settings && (() => orderOf(settings)),
      isNeeded: settings !== undefined,
      hasWork: ({ running, unacknowledged }) => running + unacknowledged > 0,
      maxStreams,
      listener: this,
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
    this.#starting = this.#start();
  }

  /** An executor with work goes on, and is found by the next brain. One without work ends. */
  async stop(): Promise<void> {
    this.#firstReport.resolve();
    await this.#starting;
    const left = await this.#link.stop();
    if (left)
      this.#options.logger.info('calls to an upstream go on; the next start collects their answers', {
        backend: this.#options.name,
        count: left.running + left.unacknowledged,
      });
  }

  /** Its connections are closed: the brain does not call it any more. */
  forget(): void {
    this.#target?.close();
  }

  onOpen(): void {
    this.#target?.retire();
    this.#target = this.#link.target();
  }

  onReport(state: UpstreamState): void {
    const { settings, env, folder } = this.#options;
    const isNews = JSON.stringify(state.models) !== JSON.stringify(this.#state?.models);
    this.#state = state;
    if (settings) this.#declare(state.status === 'away' ? state.problem : undefined);
    else this.#present(NOT_CONFIGURED);
    if (state.status !== 'new') this.#firstReport.resolve();
    // Lost where it cannot be written: it is only for messages.
    if (isNews) void keepLastState(env, folder, state);
  }

  onProblem(problem: LinkProblem): void {
    this.#declare(problem);
  }

  /** Nothing runs for an upstream that is not configured any more; jobs that wait for it are told so. */
  onGone(): void {
    this.#target = undefined;
    if (this.#state) this.#present(NOT_CONFIGURED);
  }

  async #start(): Promise<void> {
    this.#state = await readLastState(this.#options.env, this.#options.folder, readState);
    this.#link.start();
  }

  /** Declares the backend, and logs what has changed for people. */
  #declare(problem: UpstreamState['problem']): void {
    const { name, logger } = this.#options;
    const state = this.#state;
    const before = this.#presented;
    const outage =
      problem?.message ?? (state && state.status !== 'new' ? undefined : 'it has not answered yet');
    this.#present(outage);
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

  #present(outage: string | undefined): void {
    const info = upstreamInfo(this.#options, this.#state, outage);
    if (this.#presented && !isChanged(this.#presented, info)) return;
    this.#presented = info;
    this.#listener?.present(
      new ExecutorBackend({
        info,
        protocol: WORKER_PROTOCOL,
        target: this.#target ?? this.#link.target(),
        secret: this.#link.executor?.secret,
        timers: this.#options.env.timers,
      }),
    );
  }
}
