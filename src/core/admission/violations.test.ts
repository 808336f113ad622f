/** Critical rules: what a broken one stops, and that nothing slips through in the step that finds it. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { EngineKit, type Fields, reopened, SUCCESS, submission } from '../../../test/fakes/engine-kit.ts';
import { DEFAULT_POLICY, type GovernancePolicy } from '../../model/governance.ts';
import type { Waits } from '../ports/backend.ts';

const TYPES = ['t', 'agent', 'tool', 'approval', 'inference'];
const NO_RM = { name: 'no-rm', effect: 'deny', tools: ['rm'], critical: true } as const;

const SETTINGS = { governance: { ...DEFAULT_POLICY, rules: [NO_RM] }, queueCapacity: 10_000 };

const governed = (policy: Partial<GovernancePolicy> = {}): EngineKit =>
  new EngineKit({ ...SETTINGS, governance: { ...SETTINGS.governance, ...policy } });

const tool = (name: string, more: Fields = {}): Fields => ({
  type: 'tool',
  tags: { agent: 'clerk', event: 'tool_call', tool: name, category: 'read' },
  ...more,
});

const waits = (...children: readonly [string, Fields][]): Waits => ({
  ok: 'waits',
  state: '{}',
  children: children.map(([id, fields]) => submission(id, { hash: id, ...fields })),
  needs: 'all',
});

const run = (kit: EngineKit, id: string, more: Fields = {}): void => {
  kit.submit(id, { type: 'agent', agent: 'clerk', ...more });
  kit.accept(id);
};

const queued = (kit: EngineKit): number =>
  [...kit.engine.state.jobs.values()].filter(({ job }) => job.state === 'queued').length;

const mode = (kit: EngineKit): string => kit.engine.state.governance.mode;

describe('[ADR-7] a critical rule that is broken', () => {
  test('by one of several calls of a run: none of them starts, and no other job in its place', () => {
    const kit = governed();
    kit.backend('b', { slots: 1, types: TYPES });
    run(kit, 'r');
    kit.submit('other');
    const before = kit.claims;
    kit.end('r', waits(['r.1.0', tool('rm')], ['r.1.1', tool('ls')]));
    assert.equal(mode(kit), 'LOCKDOWN');
    assert.deepEqual(kit.claims, before);
    assert.deepEqual(
      [kit.state('r'), kit.state('r.1.1'), kit.state('other')],
      ['cancelled', 'cancelled', 'queued'],
    );
  });

  test('while the disk is full: it stops everything all the same; another rule is but obeyed', () => {
    const mild = { name: 'no-mail', effect: 'deny', tools: ['mail'] } as const;
    const kit = governed({ rules: [NO_RM, mild] });
    kit.backend('b', { slots: 5, types: TYPES });
    for (const id of ['r', 'q']) run(kit, id);
    kit.step({ type: 'space', full: true });
    kit.end('q', waits(['q.1.0', tool('mail')]));
    assert.deepEqual(
      kit.job('q').job.wait?.refused?.map(({ error }) => error.code),
      ['GOVERNANCE_DENIED'],
    );
    assert.deepEqual([mode(kit), kit.engine.state.governance.record.violations], ['NORMAL', 0]);
    kit.end('r', waits(['r.1.0', tool('rm')]));
    assert.deepEqual([mode(kit), kit.state('r')], ['LOCKDOWN', 'cancelled']);
    assert.equal(kit.engine.state.governance.record.violations, 1);
  });

  test('by a job that is about to start: none behind it is claimed', () => {
    const kit = governed({ rules: [{ ...NO_RM, modes: ['ALERT'] }] });
    kit.submit('bad', tool('rm'));
    kit.submit('next', tool('ls'));
    kit.step({ type: 'mode', order: { mode: 'ALERT', by: 'ann', why: 'a test', isPerson: true } });
    kit.submit('asks', { type: 'approval' });
    kit.backend('b', { slots: 5, types: TYPES });
    assert.equal(kit.engine.nextWake(), 0, 'what LOCKDOWN does not hold up goes on at once');
    kit.step({ type: 'tick' });
    assert.deepEqual([mode(kit), kit.state('bad'), kit.state('next')], ['LOCKDOWN', 'dead', 'queued']);
    assert.equal(kit.state('asks'), 'claimed');
  });

  test('below a run that has ended and left memory: what it has left behind is cancelled', () => {
    const kit = governed();
    kit.backend('b', { slots: 10, types: TYPES });
    run(kit, 'top');
    kit.submit('top.1', tool('start', { parent_id: 'top' }));
    run(kit, 'low', { parent_id: 'top.1' });
    for (const id of ['top.1', 'top']) {
      if (id !== 'top') kit.accept(id);
      kit.end(id, SUCCESS);
      kit.step({ type: 'indexed', uids: [{ uid: id, seq: kit.job(id).seq }] });
    }
    kit.trySubmit('low.1', tool('rm', { parent_id: 'low' }));
    assert.equal(mode(kit), 'LOCKDOWN');
    assert.equal(kit.job('low').job.cancel?.by, 'rule:no-rm');
  });

  test('in a tree of thousands of jobs: all of them are cancelled, also by a brain that comes in between', () => {
    const kit = governed();
    kit.backend('b', { slots: 1, types: TYPES });
    run(kit, 'r');
    for (let at = 0; at < 2500; at++) kit.submit(`r.${at}`, { parent_id: 'r' });
    kit.trySubmit('bad', tool('rm', { parent_id: 'r' }));
    assert.ok(queued(kit) > 0);
    for (const each of [reopened(kit, SETTINGS), kit]) {
      each.pass(0);
      assert.deepEqual([queued(each), each.engine.state.governance.record.stopping], [0, undefined]);
    }
  });

  test('is noted, and ends its job like any other end, also where a run goes on for a last time', () => {
    const runs = {
      name: 'no-runs',
      effect: 'deny',
      types: ['agent'],
      modes: ['ALERT'],
      critical: true,
    } as const;
    const kit = governed({ rules: [runs] });
    kit.backend('b', { slots: 5, types: TYPES });
    kit.step({ type: 'limits', limits: [{ scope: 'agent:default/clerk', concurrency: 1 }], by: 'x' });
    run(kit, 'r');
    kit.end('r', waits(['r.1', tool('ls')]));
    kit.accept('r.1');
    kit.step({ type: 'mode', order: { mode: 'ALERT', by: 'ann', why: 'a test', isPerson: true } });
    kit.end('r.1', SUCCESS);
    assert.deepEqual([kit.state('r'), mode(kit)], ['dead', 'LOCKDOWN']);
    kit.submit('next', { agent: 'clerk' });
  });
});
