import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { submission } from '../../../test/fakes/engine-kit.ts';
import { cost, MoneyKit } from '../../../test/fakes/money-kit.ts';
import { usedTokens } from '../../../test/fakes/used-tokens.ts';
import { OrchdError } from '../../model/errors.ts';
import type { LimitSpec } from '../../model/limit-records.ts';
import type { TreeBudget } from '../../model/waiting.ts';
import type { Outcome } from '../ports/backend.ts';

type Part = readonly [id: string, fields: Parameters<typeof submission>[1]];

const waits = (budget: TreeBudget, ...parts: Part[]): Outcome => ({
  ok: 'waits',
  state: '{}',
  children: parts.map(([id, fields]) => submission(id, { hash: `hash of ${id}`, type: 'part', ...fields })),
  needs: 'all',
  budget,
});

/** A job `run` that waits for these parts, with this budget. */
function tree(budget: TreeBudget, parts: readonly Part[], limits: readonly LimitSpec[] = []): MoneyKit {
  const kit = new MoneyKit(limits);
  kit.backend('runs', { types: ['run'] });
  kit.backend('parts', { slots: 10, types: ['part'] });
  kit.submit('run', { type: 'run', maxOutput: 0 });
  kit.accept('run');
  kit.end('run', waits(budget, ...parts));
  return kit;
}

const refusedOf = (kit: MoneyKit) =>
  (kit.job('run').job.wait?.refused ?? []).map(({ id, error }) => [id, error.reason]);

/** The reason for which a job below `parent` is refused; undefined if it is admitted. */
function below(kit: MoneyKit, id: string, parent: string, tokens: number): string | undefined {
  const reply = kit.trySubmit(id, { type: 'part', parent_id: parent, tokens, maxOutput: 1 });
  return reply instanceof OrchdError ? reply.details.reason : undefined;
}

const spent = (kit: MoneyKit) => kit.engine.state.tables.spent.get('root:default/run');

describe('the tokens of a job with a budget', () => {
  test('are reserved by all jobs below it together, before one of them runs', () => {
    const kit = tree({ tokens: 100 }, [
      ['run.1', { tokens: 60 }],
      ['run.2', { tokens: 60 }],
      ['run.3', { tokens: 40 }],
    ]);
    assert.deepEqual(refusedOf(kit), [['run.2', 'token_budget']]);
    assert.equal(below(kit, 'more', 'run', 1), 'token_budget');
  });

  test('count at any depth and whoever submits, and not outside', () => {
    const kit = tree({ tokens: 100 }, [['run.1', { tokens: 50 }]]);
    assert.equal(below(kit, 'deep', 'run.1', 50), undefined);
    assert.equal(below(kit, 'deeper', 'deep', 1), 'token_budget');
    assert.equal(kit.refusalOf('outside', 1, { type: 'part', tokens: 1000 }), undefined);
  });

  test('are settled by what was used, over a restart too, until the job ends', () => {
    const kit = tree({ tokens: 100 }, [
      ['run.1', { tokens: 90 }],
      ['run.2', { tokens: 5 }],
    ]);
    kit.accept('run.1');
    kit.end('run.1', { ok: true, result: '1', usage: usedTokens(15, 5, 1) });
    assert.equal(spent(kit)?.tokens, 20);
    for (const next of [kit, kit.restarted()]) {
      next.backend('runs', { types: ['run'] });
      assert.equal(below(next, 'much', 'run', 76), 'token_budget');
      assert.equal(below(next, 'fits', 'run', 75), undefined);
    }
    kit.step({ type: 'cancel', uid: 'run', by: 'ann' });
    assert.equal(kit.state('run'), 'cancelled');
    assert.equal(spent(kit), undefined);
    assert.equal(kit.engine.state.limiter.ownCount, 0);
  });

  test('of a job below another are limited by both budgets', () => {
    const kit = tree({ tokens: 100 }, [['run.1', { tokens: 0 }]]);
    kit.accept('run.1');
    kit.end('run.1', waits({ tokens: 30 }, ['run.1.1', { tokens: 40 }], ['run.1.2', { tokens: 30 }]));
    assert.deepEqual(
      kit.job('run.1').job.wait?.refused?.map(({ id }) => id),
      ['run.1.1'],
    );
    assert.equal(below(kit, 'beside', 'run', 71), 'token_budget');
    assert.equal(below(kit, 'beside', 'run', 70), undefined);
  });
});

describe('the money of a job with a budget', () => {
  test('is held back by what runs below it: a job that does not fit waits, and one that never fits is refused', () => {
    const kit = tree({ cost: 100 }, [
      ['run.1', { maxOutput: 60 }],
      ['run.2', { maxOutput: 60 }],
      ['run.3', { maxOutput: 101 }],
    ]);
    assert.deepEqual(refusedOf(kit), [['run.3', 'cost_budget']]);
    assert.deepEqual(kit.running, ['run.1']);
    kit.accept('run.1');
    kit.end('run.1', cost.success(40));
    assert.deepEqual(kit.running, ['run.2']);
    assert.deepEqual(kit.used('root:default/run'), [1, 60, 40]);
    kit.accept('run.2');
    kit.end('run.2', cost.success(50));
    assert.equal(spent(kit)?.cost, 90);
    assert.equal(kit.state('run'), 'claimed');
  });

  test('goes on after a restart where it was, and ends with the job', () => {
    const kit = tree({ cost: 100 }, [
      ['run.1', { maxOutput: 60 }],
      ['run.2', { maxOutput: 40 }],
    ]);
    kit.accept('run.1');
    kit.end('run.1', cost.success(50));
    const next = kit.restarted();
    assert.deepEqual(next.used('root:default/run'), [1, 40, 50]);
    next.backend('runs', { types: ['run'] });
    next.backend('parts', { slots: 10, types: ['part'] });
    assert.equal(
      next.refusalOf('more', 51, { type: 'part', parent_id: 'run' }),
      'ADMISSION_REJECT cost_budget',
    );
    next.step({ type: 'cancel', uid: 'run', by: 'ann' });
    assert.equal(next.engine.queue.gates.ownCount, 0);
    assert.equal(spent(next), undefined);
  });

  test('is limited by the limit of its scope too, whichever is smaller', () => {
    const limits: LimitSpec[] = [{ scope: 'root:*', costBudget: 50, hard: true }];
    const kit = tree(
      { cost: 100 },
      [
        ['run.1', { maxOutput: 51 }],
        ['run.2', { maxOutput: 50 }],
      ],
      limits,
    );
    assert.deepEqual(refusedOf(kit), [['run.1', 'cost_budget']]);
    const small = tree({ cost: 20 }, [['run.1', { maxOutput: 21 }]], limits);
    assert.deepEqual(refusedOf(small), [['run.1', 'cost_budget']]);
  });
});
