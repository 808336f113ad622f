/**
 * The transition tables of jobs, attempts and workers. Nothing persists a change of state outside them: every move is made by a
 * constructor in moves.ts, which asks here, and docs/states.md is drawn from them.
 */
export const JOB_TRANSITIONS = {
  queued: ['claimed', 'cancelled', 'dead'],
  claimed: ['running', 'queued', 'stale', 'failed', 'cancelled'],
  running: ['succeeded', 'failed', 'stale', 'cancelled'],
  stale: ['running', 'succeeded', 'queued', 'failed', 'cancelled', 'dead'],
  failed: ['queued', 'dead', 'cancelled'],
  dead: ['queued'],
  succeeded: [],
  cancelled: [],
} as const satisfies Record<string, readonly string[]>;

export type JobState = keyof typeof JOB_TRANSITIONS;

export const ATTEMPT_TRANSITIONS = {
  intended: ['accepted', 'ended', 'unknown', 'abandoned'],
  accepted: ['ended', 'unknown'],
  unknown: ['accepted', 'ended', 'abandoned'],
  ended: [],
  abandoned: [],
} as const satisfies Record<string, readonly string[]>;

export type AttemptState = keyof typeof ATTEMPT_TRANSITIONS;

/** A worker as it should be. One that is to go never takes jobs again; it leaves the table when it is gone. */
export const WORKER_TRANSITIONS = {
  starting: ['running', 'draining', 'stopping'],
  running: ['draining', 'stopping'],
  draining: ['stopping'],
  stopping: [],
} as const satisfies Record<string, readonly string[]>;

export type WorkerRecordState = keyof typeof WORKER_TRANSITIONS;

/** What each job state means, for docs and for people. */
export const JOB_STATE_MEANING: Record<JobState, string> = {
  queued: 'waits: ready in its lane, or parked with the condition that wakes it',
  claimed: 'a backend is chosen and the intent is durable; the offer is on its way',
  running: 'the backend has accepted it',
  stale: 'the outcome is unknown: the holder is lost or has forgotten',
  failed: 'a try ended badly; goes on to queued or dead in the same commit',
  dead: 'dead letter: failed for good, dropped, expired or killed; an operator may redrive it',
  succeeded: 'done, the result is kept',
  cancelled: 'cancelled by its caller',
};

export const ATTEMPT_STATE_MEANING: Record<AttemptState, string> = {
  intended: 'durable; nothing sent yet, or not known',
  accepted: 'the backend has it',
  unknown: 'the holder is lost, or cannot say',
  ended: 'the backend confirmed its end',
  abandoned: 'certain that it did not and will not run, or given up by policy',
};

export const WORKER_STATE_MEANING: Record<WorkerRecordState, string> = {
  starting: 'it was, or will be, ordered',
  running: 'its pool has shown it ready; it takes jobs',
  draining: 'it takes nothing new and finishes what it has',
  stopping: 'it is, or will be, ordered to go',
};

export const JOB_STATES = Object.keys(JOB_TRANSITIONS) as JobState[];
export const ATTEMPT_STATES = Object.keys(ATTEMPT_TRANSITIONS) as AttemptState[];

const TERMINAL: ReadonlySet<JobState> = new Set(['succeeded', 'cancelled', 'dead']);

/** A job that asks for nothing more; only an operator's redrive moves a dead one again. */
export const isTerminal = (state: JobState): boolean => TERMINAL.has(state);

/** An attempt that still owns its slot and its money. */
export const isOpen = (state: AttemptState): boolean => state !== 'ended' && state !== 'abandoned';

export function mayMove(from: JobState, to: JobState): boolean {
  return (JOB_TRANSITIONS[from] as readonly JobState[]).includes(to);
}

export function mayMoveWorker(from: WorkerRecordState, to: WorkerRecordState): boolean {
  return (WORKER_TRANSITIONS[from] as readonly WorkerRecordState[]).includes(to);
}

export function mayMoveAttempt(from: AttemptState, to: AttemptState): boolean {
  return (ATTEMPT_TRANSITIONS[from] as readonly AttemptState[]).includes(to);
}
