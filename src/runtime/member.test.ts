import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Leadership, Term } from '../core/ports/leadership.ts';
import { realEnv } from '../kit/env/real.ts';
import { createLogger } from '../kit/logger.ts';
import { type Brain, Member } from './member.ts';

interface HeldTerm extends Term {
  end(): void;
}

function termOf(epoch: number): HeldTerm {
  const over = Promise.withResolvers<void>();
  return { epoch, holds: () => true, over: over.promise, end: over.resolve };
}

test('a brain that was still starting when its term ended is not used in the next term', async (t) => {
  const terms = [termOf(1), termOf(2)];
  const won = [...terms];
  const never = new Promise<never>(() => undefined);
  const leadership = {
    open: async () => undefined,
    win: async () => won.shift() ?? never,
    resign: async () => undefined,
    close: async () => undefined,
    onChange: () => undefined,
  } as unknown as Leadership;
  const starts = terms.map(() => Promise.withResolvers<void>());
  const made: Brain[] = [];
  const madeAgain = Promise.withResolvers<void>();
  const member = new Member<Brain>({
    env: realEnv(),
    leadership,
    self: { node: 'n', address: '' },
    logger: createLogger({ write: () => undefined, now: () => 0 }),
    makeBrain: ({ epoch }) => {
      const started = starts[epoch - 1]!.promise;
      const brain = {
        start: () => started,
        stop: () => started,
        drain: async () => undefined,
        failed: never,
      };
      made.push(brain);
      if (epoch === 2) madeAgain.resolve();
      return brain;
    },
  });
  await member.start();
  t.after(async () => {
    starts[1]!.resolve();
    await member.stop();
  });
  terms[0]!.end();
  await new Promise((resolve) => setImmediate(resolve));
  starts[0]!.resolve();
  await madeAgain.promise;
  assert.equal(member.brain, undefined);
  starts[1]!.resolve();
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(member.brain, made[1]);
});
