/** What the suite needs for each kind of backend: the backend, work that the suite controls, and ways to break things. */
import type { Backend } from '../../core/ports/backend.ts';

/** One execution whose work the suite controls. Calls made before the work has begun take effect when it begins. */
export interface SteeredExecution {
  /** Resolves when the work has begun, with the payload that reached it. */
  readonly begun: Promise<unknown>;
  /** Makes the work emit a piece of text, as one event or several. */
  say(text: string): Promise<void>;
  /** Ends the work successfully. Its result is a JSON object whose `text` is all text emitted by `say`. */
  succeed(): Promise<void>;
  fail(retriable: boolean): Promise<void>;
}

export interface UnrunnableWork {
  readonly type: string;
  readonly payloadText: string;
}

/**
 * Whether a promise applies to a backend is decided by `backend.info` and by the optional members below, never by the
 * name of its kind.
 */
export interface BackendHarness {
  /** Unique for every harness. Owners and jobs are named after it, because harnesses may share an executor. */
  readonly id: string;
  /** The backend object of the brain; a new one after `restartBrain` and `loseMemory`. */
  readonly backend: Backend;
  /** The job type whose work the suite controls. */
  readonly workType: string;
  /** Work that this backend does not run. */
  readonly unrunnable: readonly UnrunnableWork[];
  /** The wall clock of the brain. */
  now(): number;
  /** Called before the token is offered for the first time. */
  execution(token: string): SteeredExecution;
  /** How often the work of a token has begun, counted by the work itself and not by the backend. */
  begun(token: string): number;
  /** A backend object of another owner's brain on the same executor; absent where an executor serves one owner only. */
  connectOther?(): Promise<Backend>;
  /** Restarts the brain's process; an executor outside of that process goes on. */
  restartBrain(): Promise<void>;
  /** Kills the executor and starts it again with its memory on disk; absent where it has none on disk. */
  restartExecutor?(): Promise<void>;
  /** Sends SIGTERM to the executor, as an init system does; absent where it is part of the brain's process. */
  stopExecutor?(): Promise<void>;
  /** Kills the executor and starts it again without any memory. */
  loseMemory(): Promise<void>;
  /** Rejects where `promise` does not settle in time. */
  within<T>(promise: Promise<T>): Promise<T>;
  remove(): Promise<void>;
}

/** Makes the harnesses of one backend, a new one for each promise. */
export interface HarnessSource {
  harness(): Promise<BackendHarness>;
  /** Stops what the harnesses share. */
  stop?(): Promise<void>;
}

/** What a file in test/backends/ exports, by the class name of the backend. */
export type Harnesses = Readonly<Record<string, HarnessSource>>;
