import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { makeEntry } from '../../../test/fakes/engine-kit.ts';
import { AdmissionOrder } from './admission-order.ts';
import type { JobEntry } from './job-entry.ts';

test('newestFirst lists the jobs in memory, also after jobs have left and come back', () => {
  const commands = fc.array(
    fc.record({ op: fc.constantFrom('add', 'add', 'leave', 'return'), pick: fc.nat() }),
    {
      maxLength: 400,
      size: 'max',
    },
  );
  fc.assert(
    fc.property(commands, fc.nat({ max: 400 }), (steps, before) => {
      const here = new Map<number, JobEntry>();
      const gone: number[] = [];
      const order = new AdmissionOrder((entry) => here.get(entry.ask.n) === entry);
      const add = (n: number): void => {
        const entry = makeEntry(n);
        here.set(n, entry);
        order.add(entry, here.size);
      };
      for (const [at, { op, pick }] of steps.entries()) {
        const live = [...here.keys()];
        if (op === 'add') add(at + 1);
        else if (op === 'leave' && live.length > 0) {
          const n = live[pick % live.length]!;
          here.delete(n);
          gone.push(n);
        } else if (op === 'return' && gone.length > 0) add(gone.splice(pick % gone.length, 1)[0]!);
      }
      const expected = [...here.values()].sort((a, b) => b.ask.n - a.ask.n);
      assert.deepEqual([...order.newestFirst()], expected);
      assert.deepEqual(
        [...order.newestFirst(before)],
        expected.filter(({ ask }) => ask.n < before),
      );
    }),
  );
});
