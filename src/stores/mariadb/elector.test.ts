/** What an elector does at once, whatever the time: the connections and the timers are the test's. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Elector, type ElectorMessage } from './elector.ts';
import type { Sql } from './sql.ts';

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** A server on which the row is free, or belongs to the only node, and everybody gets the lock. */
function connection(lost: (() => void)[]): Sql {
  return {
    query: async (text: string) => [
      text.includes('GET_LOCK') ? { got: 1 } : { epoch: 1, expired: 1, has_lock: 1, version: 0 },
    ],
    run: async () => ({ rows: 1, id: 0 }),
    begin: async () => undefined,
    commit: async () => undefined,
    close: async () => undefined,
    destroy: () => undefined,
    onLost: (listener: () => void) => lost.push(listener),
  } as unknown as Sql;
}

test('a leader that loses the connection with its lock does not act until it has renewed its lead', async () => {
  const lost: (() => void)[] = [];
  const held: number[] = [];
  const said: ElectorMessage[] = [];
  let canConnect = Promise.resolve();
  const elector = new Elector({
    connect: () => canConnect.then(() => connection(lost)),
    self: { node: 'a', address: 'http://a', ttlMs: 5000 },
    lockName: 'lock',
    isGone: async () => false,
    // No time passes: neither a renewal nor a deadline is due.
    timers: { after: () => () => undefined, soon: () => undefined } as never,
    now: () => 1000,
    lastBeat: () => 1000,
    setHeldUntil: (at) => held.push(at),
    say: (message) => said.push(message),
  });
  elector.stand();
  const over = elector.run();
  while (held.length < 2) await turn();
  assert.deepEqual(said, [{ is: 'won', epoch: 2 }]);
  let connect: () => void = () => undefined;
  canConnect = new Promise((resolve) => {
    connect = resolve;
  });
  lost.at(-1)?.();
  assert.equal(held.at(-1), 0);
  await turn();
  assert.equal(held.at(-1), 0, 'there is no connection yet');
  connect();
  while (held.at(-1) === 0) await turn();
  assert.equal(lost.length, 2, 'it has connected again');
  // A connection that was given up says nothing any more.
  const { length } = held;
  lost[0]?.();
  assert.equal(held.length, length);
  elector.close();
  await over;
});

test('[NEWS-7] a leader that cannot renew its lead gives it up before its time in the row is over', async (t) => {
  const TTL_MS = 5000;
  let now = 1000;
  let isCut = false;
  let heldUntil = 0;
  let renewedAt = 0;
  let lastHeld = 0;
  let overAt: number | undefined;
  const sql = connection([]);
  const run = async (): Promise<{ rows: number; id: number }> => {
    if (isCut) throw new Error('no answer');
    renewedAt = now;
    return { rows: 1, id: 0 };
  };
  const elector = new Elector({
    connect: async () => (isCut ? Promise.reject(new Error('no network')) : { ...sql, run }),
    self: { node: 'a', address: 'http://a', ttlMs: TTL_MS },
    lockName: 'lock',
    isGone: async () => false,
    // Every wait ends at once, and has taken its time by the clock of the test.
    timers: {
      after: (ms: number, done: () => void) => {
        const immediate = setImmediate(() => {
          now += ms;
          done();
        });
        return () => clearImmediate(immediate);
      },
    } as never,
    now: () => now,
    lastBeat: () => now,
    setHeldUntil: (at) => {
      heldUntil = at;
      if (at > 0) lastHeld = at;
    },
    say: ({ is }) => {
      if (is === 'over') overAt = now;
    },
  });
  elector.stand();
  const running = elector.run();
  t.after(() => {
    elector.close();
    return running;
  });
  while (now < 1000 + 2 * TTL_MS) await turn();
  assert.equal(overAt, undefined, 'it leads as long as it renews');
  isCut = true;
  while (overAt === undefined && now < renewedAt + 10 * TTL_MS) await turn();
  assert.equal(heldUntil, 0);
  assert.ok(lastHeld < renewedAt + TTL_MS, 'it stops acting before its time in the row is over');
  assert.ok(overAt !== undefined && overAt >= lastHeld && overAt < renewedAt + TTL_MS);
});
