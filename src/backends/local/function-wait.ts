/** How a function ends its call to wait: its job gives up the slot, and another call goes on later. */
import type { AskedWait, SessionList, Waited } from '../../core/ports/backend.ts';
import { OrchdError } from '../../model/errors.ts';
import type { RefusedChild, TreeBudget, WakeReason } from '../../model/waiting.ts';

export interface WaitRequest {
  /** A JSON value that the next call gets back. */
  readonly state?: unknown;
  /** The names of fields of `state` whose values are lists that only grow from wait to wait: values are stored once. */
  readonly growing?: readonly string[];
  /** The one of these lists that begins with the messages of the session, and how many there were. */
  readonly continues?: Omit<SessionList, 'values'>;
  /** Jobs to submit below this one, in the form in which callers submit them; all of them are admitted, or refused, with the wait. */
  readonly jobs?: readonly object[];
  /** Whether all of these must have ended before the next call, or one; `all` by default. */
  readonly needs?: 'all' | 'any';
  /** The next call comes after this time at the latest. */
  readonly forMs?: number;
  /** What the job and all jobs below it may use. */
  readonly budget?: TreeBudget;
}

/** What a call gets that goes on after a wait. */
export interface WaitedState {
  readonly state: unknown;
  readonly woken: WakeReason;
  /** The ids of the jobs that were waited for. */
  readonly jobs: readonly string[];
  readonly refused: readonly RefusedChild[];
  /** The answer that ended the wait, if one did. */
  readonly answer: unknown;
}

/** A function returns it instead of a result. */
export class Wait {
  readonly #request: WaitRequest;

  constructor(request: WaitRequest) {
    this.#request = request;
  }

  outcome(): AskedWait {
    const { state, growing = [], continues, jobs = [], needs = 'all', forMs, budget } = this.#request;
    if (forMs !== undefined && !Number.isFinite(forMs))
      throw new OrchdError('INVALID_PARAMS', '"forMs" must be a number; without it the wait has no end');
    return {
      ok: 'waits',
      ...split(state, growing),
      ...(continues && { continues }),
      children: jobs,
      needs,
      ...(forMs !== undefined && { forMs }),
      ...(budget && { budget }),
    };
  }
}

function split(state: unknown, growing: readonly string[]): Pick<AskedWait, 'stateText' | 'lists'> {
  if (growing.length === 0) return { stateText: JSON.stringify(state) ?? 'null' };
  const rest = { ...(state as Readonly<Record<string, unknown>>) };
  const lists: Record<string, readonly unknown[]> = {};
  for (const name of growing) {
    lists[name] = listOf(name, rest[name]);
    delete rest[name];
  }
  return { stateText: JSON.stringify(rest), lists };
}

/** Throws INVALID_PARAMS for a value that is no list. */
export function listOf(name: string, value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value;
  throw new OrchdError('INVALID_PARAMS', `"${name}" is said to be a list that grows, and is none`);
}

export function stateAfter(waited: Waited): WaitedState {
  const { stateText, woken = 'children', children, refused = [], answer } = waited;
  return {
    state: JSON.parse(stateText),
    woken,
    jobs: children,
    refused,
    answer: answer === undefined ? undefined : JSON.parse(answer),
  };
}
