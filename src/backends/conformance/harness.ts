/** What a kind of backend gives the suite: a backend, work that the suite steers, and ways to break things. */
import type { Backend } from '../../core/ports/backend.ts';

/** One execution as the suite steers it. Orders that come before its work has begun are carried out then. */
export interface SteeredExecution {
  /** Resolves when the work has begun, with the payload that reached it. */
  readonly begun: Promise<unknown>;
  /** Makes the work hand a piece of text to its readers, as one event or as several. */
  say(text: string): Promise<void>;
  /** Ends the work well. Its result is a JSON object whose `text` is everything that was said. */
  succeed(): Promise<void>;
  fail(retriable: boolean): Promise<void>;
}

export interface UnrunnableWork {
  readonly type: string;
  readonly payloadText: string;
}

/**
 * A promise that not every kind can give is decided by `backend.info` and by the optional parts below, never by
 * the name of the kind.
 */
export interface BackendHarness {
  /** Different for every harness: owners and jobs are named after it, since harnesses may share an executor. */
  readonly id: string;
  /** The brain's way to the executor; another object after `restartBrain` and `loseMemory`. */
  readonly backend: Backend;
  /** The job type whose work the suite steers. */
  readonly workType: string;
  /** Work that this backend does not run. */
  readonly unrunnable: readonly UnrunnableWork[];
  /** The wall clock of the brain. */
  now(): number;
  /** Called before the token is offered for the first time. */
  execution(token: string): SteeredExecution;
  /** How often the work of a token has begun, counted outside of the backend. */
  begun(token: string): number;
  /** The way of a brain of another owner to the same executor; absent where an executor serves one owner only. */
  connectOther?(): Promise<Backend>;
  /** Ends the brain's process and starts it again; an executor outside of that process goes on. */
  restartBrain(): Promise<void>;
  /** Kills the executor and starts it with the memory it has on disk; absent where it has none on disk. */
  restartExecutor?(): Promise<void>;
  /** Kills the executor and starts it without any memory. */
  loseMemory(): Promise<void>;
  /** Fails where a promise does not settle, instead of waiting for ever. */
  within<T>(promise: Promise<T>): Promise<T>;
  remove(): Promise<void>;
}

/** Where the suite gets the harnesses of a backend, one for each promise. */
export interface HarnessSource {
  harness(): Promise<BackendHarness>;
  /** Ends what the harnesses shared. */
  stop?(): Promise<void>;
}

/** What a file of test/backends/ exports: by the class of the backend. */
export type Harnesses = Readonly<Record<string, HarnessSource>>;
