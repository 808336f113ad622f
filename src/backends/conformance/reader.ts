/** Follows one execution and keeps its events. */

import assert from 'node:assert/strict';
import type { ExecutionEvent, ExecutionOutcome, FollowEnd } from '../../core/ports/backend.ts';

type Follow = (on: (event: ExecutionEvent) => void, signal: AbortSignal) => Promise<FollowEnd>;

export class Reader {
  readonly events: ExecutionEvent[] = [];
  /** What `follow` returned. */
  readonly end: Promise<FollowEnd>;
  readonly #stop = new AbortController();
  #watchers: (() => void)[] = [];

  constructor(follow: Follow) {
    this.end = follow((event) => this.#received(event), this.#stop.signal);
    // A check that fails early no longer awaits this reader; its rejection must not end the process.
    this.end.catch(() => undefined);
  }

  /** The text received so far. */
  get text(): string {
    return textOf(this.events);
  }

  stop(): void {
    this.#stop.abort();
  }

  async until(condition: (reader: Reader) => boolean): Promise<void> {
    while (!condition(this)) await new Promise<void>((resolve) => this.#watchers.push(resolve));
  }

  #received(event: ExecutionEvent): void {
    this.events.push(event);
    for (const wake of this.#watchers.splice(0)) wake();
  }
}

export const textOf = (events: readonly ExecutionEvent[]): string =>
  events.map(({ type, data }) => (type === 'token' ? (data as { t: string }).t : '')).join('');

/** The part of the events in which all readers of one execution must agree. */
export const contentsOf = (events: readonly ExecutionEvent[]): unknown[] =>
  events.map(({ n, type, data }) => ({ n, type, data }));

export function assertNumbered(events: readonly ExecutionEvent[], from: number): void {
  const numbers = events.map(({ n }) => n);
  const expected = events.map((_, at) => from + at + 1);
  assert.deepEqual(numbers, expected, `the events after ${from} are numbered without gaps`);
}

export function outcomeOf(end: FollowEnd): ExecutionOutcome {
  assert.equal(end.is, 'ended', 'the reader gets the end of the execution');
  return (end as Extract<FollowEnd, { is: 'ended' }>).outcome;
}

/** The text in the result of an execution that succeeded. */
export function resultOf(outcome: ExecutionOutcome): string {
  assert.equal(outcome.ok, true, `it succeeded: ${JSON.stringify(outcome).slice(0, 200)}`);
  const succeeded = outcome as Extract<ExecutionOutcome, { ok: true }>;
  return (JSON.parse(succeeded.resultText) as { text: string }).text;
}
