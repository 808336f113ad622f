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
  /** No job has ever had one of their ids, as far as this job's own id is unique: the history is not asked for them. */
  readonly newIds?: boolean;
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

  /** Throws INVALID_PARAMS for a request that nobody could go on with: what is wrong ends this call, and nothing else. */
  outcome(): AskedWait {
    check(this.#request);
    const { growing = [], continues, jobs = [], newIds, needs = 'all', forMs, budget } = this.#request;
    return {
      ok: 'waits',
      ...split(this.#request, growing),
      ...(continues && { continues }),
      children: jobs,
      ...(newIds && { newIds }),
      needs,
      ...(forMs !== undefined && { forMs }),
      ...(budget && { budget }),
    };
  }
}

/** Functions are not checked by the compiler where they are written in JavaScript. */
function check(request: WaitRequest): void {
  if (typeof request !== 'object' || request === null) throw wrong('a wait must be an object');
  const { growing, jobs, needs, forMs, budget } = request;
  if (forMs !== undefined && !Number.isFinite(forMs))
    throw wrong('"forMs" must be a number; without it the wait has no end');
  if (jobs !== undefined && !Array.isArray(jobs)) throw wrong('"jobs" must be a list');
  if (needs !== undefined && needs !== 'all' && needs !== 'any')
    throw wrong('"needs" must be "all" or "any"');
  if (growing !== undefined && !(Array.isArray(growing) && growing.every((name) => LIST_NAME.test(name))))
    throw wrong('"growing" must be a list of names: letters, digits and "_", at most 64');
  if (budget !== undefined && !isBudget(budget)) throw wrong('the numbers of "budget" must be 0 or more');
}

/** bodies.ts tells the structure of a composed text from what is sealed by such names. */
const LIST_NAME = /^\w{1,64}$/;

const isBudget = (budget: TreeBudget | null): boolean =>
  typeof budget === 'object' &&
  [budget?.tokens, budget?.cost].every((most) => most === undefined || (Number.isFinite(most) && most >= 0));

const wrong = (message: string): OrchdError => new OrchdError('INVALID_PARAMS', message);

/** The text of a state. One that is left out is null. */
function textOf(state: unknown): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(state);
  } catch (error) {
    const [why] = String((error as Error).message).split('\n');
    throw wrong(`the state of a wait cannot be written as JSON: ${why}`);
  }
  if (text === undefined) throw wrong(`the state of a wait cannot be written as JSON: it is ${typeof state}`);
  return text;
}

function split(request: WaitRequest, growing: readonly string[]): Pick<AskedWait, 'stateText' | 'lists'> {
  const { state } = request;
  if (growing.length === 0) return { stateText: 'state' in request ? textOf(state) : 'null' };
  const rest = { ...(state as Readonly<Record<string, unknown>>) };
  const lists: Record<string, readonly unknown[]> = {};
  for (const name of growing) {
    lists[name] = listOf(name, rest[name]);
    delete rest[name];
  }
  const stateText = textOf(rest);
  // A `toJSON` of its own may have made something else of it.
  if (!stateText.startsWith('{')) throw wrong('the state of a wait must be an object where lists of it grow');
  return { stateText, lists };
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
