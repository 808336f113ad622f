/** A workload whose brain is killed at every kind of operation, and what must be true afterwards. */
import type { Crashpoint } from '../../src/kit/crashpoint.ts';
import type { Env } from '../../src/kit/env/env.ts';
import type { Orchestrator } from '../../src/runtime/orchestrator.ts';
import type { BrainOptions } from './brain.ts';
import type { Folders } from './folders.ts';

export interface Played {
  readonly folders: Folders;
  readonly sleep: (ms: number) => Promise<void>;
}

export interface World {
  options(env: Env, played: Played): Partial<BrainOptions>;
  /** Asks for everything, again after a death; returns when all of it has ended. */
  play(brain: Orchestrator, played: Played): Promise<void>;
  /** How much was done, by those outside the brain. */
  done(folders: Folders): number;
  /** A whole play that does less shows nothing. */
  readonly atLeast: number;
  /** Crash points at which it dies every time that it passes them; a whole play passes each of them. */
  readonly everyTime?: readonly Crashpoint[];
  /** Set where the other operations are those of other worlds: only `CRASH_ALL=1` kills at these too. */
  readonly diesOnlyThere?: boolean;
  problems(brain: Orchestrator, folders: Folders): string[] | Promise<string[]>;
}
