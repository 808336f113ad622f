/** Reads the events of running attempts, one reader for each, and posts their ends to the loop. */
import { afterOutput } from '../core/attempts/ending.ts';
import type { Engine } from '../core/engine/engine.ts';
import type { Backend, ExecutionEvent, ExecutionOutcome, Outcome } from '../core/ports/backend.ts';
import type { JobEntry } from '../core/state/job-entry.ts';
import type { Env } from '../kit/env/env.ts';
import type { Commander } from '../model/worker-wire.ts';
import type { BackendDirectory } from './backend-directory.ts';
import type { EffectRunner } from './effect-runner.ts';
import type { Loop } from './loop.ts';
import type { Outcomes } from './outcomes.ts';

/** One reader of an executor's events. */
interface Reading {
  readonly entry: JobEntry;
  readonly token: string;
  /** When the executor accepted the attempt, where this brain has heard so: it may not have been recorded yet. */
  readonly acceptedAt: number | undefined;
  /** The backend that was read last. */
  backend: Backend;
  /** The number of the last event received, and when that was. */
  from: number;
  since: number;
  tries: number;
  hasOutput: boolean;
}

export interface EventReadersParts {
  readonly env: Env;
  readonly runner: EffectRunner;
  readonly engine: Engine;
  readonly loop: Pick<Loop, 'post' | 'fail'>;
  readonly holderLostMs: number;
  readonly onEvent: (entry: JobEntry, event: ExecutionEvent) => void;
  readonly outcomes: Outcomes;
  readonly backends: Pick<BackendDirectory, 'get'>;
  readonly who: () => Commander;
}

export class EventReaders {
  readonly #parts: EventReadersParts;
  /** The token of each attempt whose events are being read, until its end is durable. */
  readonly #tokens = new Map<JobEntry, string>();

  constructor(parts: EventReadersParts) {
    this.#parts = parts;
  }

  /** The job has no open attempt any more. */
  forget(entry: JobEntry): void {
    this.#tokens.delete(entry);
  }

  follow(token: string, backend: Backend, acceptedAt?: number): void {
    const { engine, runner, env } = this.#parts;
    const entry = engine.state.open.get(token);
    if (!entry || this.#tokens.get(entry) === token || runner.stopped) return;
    this.#tokens.set(entry, token);
    const since = env.clock.monotonic();
    this.#read({ entry, token, acceptedAt, backend, from: 0, since, tries: 1, hasOutput: false });
  }

  /** Reads to the end of the execution. A reader that loses its executor tries again for holderLostMs, then posts `lost`. */
  #read(reading: Reading): void {
    const { entry, token, backend } = reading;
    const { env, runner, onEvent, who } = this.#parts;
    const hear = (event: ExecutionEvent): void => {
      if (event.n <= reading.from || entry.token !== token || runner.stopped) return;
      reading.from = event.n;
      reading.since = env.clock.monotonic();
      if (event.type === 'token' && !reading.hasOutput) this.#noteOutput(reading);
      onEvent(entry, event);
    };
    backend.follow(token, reading.from, hear, who()).then(
      (end) => {
        if (end.is === 'ended') this.#ended(reading, end.outcome);
        else if (end.is === 'forgotten') this.#endedUnknown(reading, end.why);
        else this.#readAgain(reading);
      },
      () => this.#readAgain(reading),
    );
  }

  /** Posted only for jobs that must not be retried after output. */
  #noteOutput(reading: Reading): void {
    reading.hasOutput = true;
    const { entry, token } = reading;
    if (afterOutput(entry.ask) === 'fail') this.#parts.loop.post({ type: 'output', token });
  }

  #readAgain(reading: Reading): void {
    const { entry, token } = reading;
    const { env, loop, runner, holderLostMs } = this.#parts;
    const isOver = runner.stopped || entry.token !== token;
    const isLost = env.clock.monotonic() - reading.since >= holderLostMs;
    if (isOver || isLost) {
      if (this.#tokens.get(entry) === token) this.#tokens.delete(entry);
      if (!isOver) loop.post({ type: 'lost', token });
      return;
    }
    env.timers.after(runner.pauseMs(reading.tries++), () => {
      // A source may have replaced the backend, whose executor is at another address then.
      reading.backend = this.#parts.backends.get(reading.backend.info.name) ?? reading.backend;
      this.#read(reading);
    });
  }

  /** The entry in #tokens stays until the end is durable, so that no second reader starts. */
  #ended({ entry, token, acceptedAt }: Reading, outcome: ExecutionOutcome): void {
    const { runner, loop, outcomes } = this.#parts;
    if (runner.stopped) return;
    const recorded = outcomes.recorded(outcome, entry.ask);
    const post = (how: Outcome): void => loop.post({ type: 'outcome', token, outcome: how, acceptedAt });
    if (!(recorded instanceof Promise)) return post(recorded);
    recorded.then(
      (late) => runner.stopped || post(late),
      (error: Error) => runner.stopped || loop.fail(error),
    );
  }

  /** The reader is over, so that a held attempt is inspected from now on instead of being read again. */
  #endedUnknown({ entry, token }: Reading, why: string | undefined): void {
    const { runner, loop, outcomes } = this.#parts;
    if (this.#tokens.get(entry) === token) this.#tokens.delete(entry);
    outcomes.forgotten(why, entry.ask).then(
      (finding) => runner.stopped || loop.post({ type: 'found', token, finding }),
      (error: Error) => runner.stopped || loop.fail(error),
    );
  }
}
