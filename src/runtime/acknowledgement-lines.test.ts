import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Backend } from '../core/ports/backend.ts';
import { State } from '../core/state/state.ts';
import { Acknowledgements, MAX_UNDER_WAY, MAX_WAITING } from './acknowledgements.ts';

/** Backends that answer acknowledgements only when they are told to. */
class Executors {
  readonly sent: string[] = [];
  readonly runner = { stopped: false, run: () => undefined };
  readonly acks: Acknowledgements;
  readonly #unanswered: PromiseWithResolvers<void>[] = [];

  constructor() {
    const backends = { get: (name: string) => (name === 'gone' ? undefined : this.#backend(name)) };
    this.acks = new Acknowledgements({
      engine: { state: new State(SETTINGS) },
      backends,
      runner: this.runner,
    });
  }

  /** Answers what is under way: every other acknowledgement fails. */
  async answer(): Promise<void> {
    for (const [at, answer] of this.#unanswered.splice(0).entries())
      if (at % 2 === 0) answer.resolve();
      else answer.reject(new Error('no answer'));
    await nextTurn();
  }

  #backend(name: string): Backend {
    const ack = (token: string): Promise<void> => {
      this.sent.push(`${name} ${token}`);
      const answer = Promise.withResolvers<void>();
      this.#unanswered.push(answer);
      return answer.promise;
    };
    return { ack } as Partial<Backend> as Backend;
  }
}

const SETTINGS = { cancelDeadlineMs: 0, failureCacheSize: 0 };

const tokens = (count: number): string[] => Array.from({ length: count }, (_, n) => `t${n}`);

test('all acknowledgements are sent in order, but only so many at once, and one that fails holds back no other', async () => {
  const executors = new Executors();
  const all = tokens(3 * MAX_UNDER_WAY + 1);
  for (const token of all) executors.acks.send('a', token);
  for (const rounds of [1, 2, 3]) {
    assert.equal(executors.sent.length, rounds * MAX_UNDER_WAY);
    await executors.answer();
  }
  assert.deepEqual(
    executors.sent,
    all.map((token) => `a ${token}`),
  );
});

test('a backend that does not answer holds back no other', async () => {
  const { acks, sent } = new Executors();
  for (const token of tokens(MAX_UNDER_WAY + 1)) acks.send('a', token);
  acks.send('gone', 'lost');
  acks.send('b', 'other');
  assert.deepEqual(sent.slice(MAX_UNDER_WAY), ['b other']);
});

test('of too many that wait the oldest are given up, and a brain that has stopped sends none', async () => {
  const executors = new Executors();
  const { acks, sent } = executors;
  for (const token of tokens(MAX_UNDER_WAY + MAX_WAITING + 2)) acks.send('a', token);
  await executors.answer();
  assert.equal(sent[MAX_UNDER_WAY], `a t${MAX_UNDER_WAY + 2}`);
  const before = sent.length;
  executors.runner.stopped = true;
  await executors.answer();
  assert.equal(sent.length, before);
});
