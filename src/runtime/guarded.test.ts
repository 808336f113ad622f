import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Backend } from '../core/ports/backend.ts';
import type { Timers } from '../kit/env/env.ts';
import { GuardedBackend } from './guarded.ts';

const WHO = { owner: 'o', epoch: 1 };

/** A guarded backend that notes its calls, and timers that run when the test says so. */
function guarded(): { guard: GuardedBackend; calls: string[]; pass: () => void; lead: { holds: boolean } } {
  const calls: string[] = [];
  const note = (call: string) => async () => {
    calls.push(call);
    return {} as never;
  };
  const names = ['offer', 'inspect', 'kill', 'ack'] as const;
  const backend = Object.fromEntries(names.map((name) => [name, note(name)]));
  const due: (() => void)[] = [];
  const after: Timers['after'] = (_, run) => {
    due.push(run);
    return () => void due.splice(due.indexOf(run), 1);
  };
  const lead = { holds: false };
  const timers = { after } as Timers;
  const guard = new GuardedBackend(backend as unknown as Backend, timers, 200, () => lead.holds);
  const pass = (): void => {
    for (const run of due.splice(0)) run();
  };
  return { guard, calls, lead, pass };
}

const callsOf = (guard: GuardedBackend): Promise<unknown>[] => [
  guard.offer({} as never),
  guard.inspect([], WHO),
  guard.kill('j:1', WHO),
  guard.ack('j:1', WHO),
];

test('[NEWS-7] a brain that may have been replaced asks nothing of a backend, and says so in the end', async () => {
  const { guard, calls, pass } = guarded();
  const answers = Promise.allSettled(callsOf(guard));
  for (let round = 0; round < 10; round++) pass();
  const codes = (await answers).map((each) => each.status === 'rejected' && each.reason.code);
  assert.deepEqual([codes, calls], [Array(4).fill('FENCED'), []]);
});

test('calls that were held back are made once the lead is certain again', async () => {
  const { guard, calls, pass, lead } = guarded();
  const answers = Promise.all(callsOf(guard));
  pass();
  assert.deepEqual(calls, []);
  lead.holds = true;
  pass();
  await answers;
  assert.deepEqual(calls, ['offer', 'inspect', 'kill', 'ack']);
});
