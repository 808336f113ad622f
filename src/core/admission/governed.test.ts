import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  EngineKit,
  type Fields,
  submission as kitSubmission,
  reopened,
  SUCCESS,
} from '../../../test/fakes/engine-kit.ts';
import { causeText } from '../../model/causes.ts';
import { OrchdError } from '../../model/errors.ts';
import {
  DEFAULT_POLICY,
  type GovernancePolicy,
  type GovernanceRecord,
  MODES,
  type Mode,
  TOOL_CATEGORIES,
} from '../../model/governance.ts';
import { explain } from '../scheduling/explain.ts';

/** The types of runs are run only by a backend that says so. */
const BACKEND = { slots: 10, types: ['t', 'agent', 'tool', 'approval', 'inference'] };

const STEP_MS = 600_000;

const governed = (policy: Partial<GovernancePolicy> = {}): EngineKit => {
  const kit = new EngineKit({ governance: { ...DEFAULT_POLICY, ...policy } });
  kit.backend('b', BACKEND);
  return kit;
};

const order = (kit: EngineKit, mode: Mode, isPerson = true): GovernanceRecord | OrchdError =>
  kit.step({ type: 'mode', order: { mode, by: 'ann', why: 'a test', isPerson } }).reply as
    | GovernanceRecord
    | OrchdError;

const setMode = (kit: EngineKit, mode: Mode): void =>
  assert.ok(!(order(kit, mode) instanceof OrchdError), `to ${mode}`);

const record = (kit: EngineKit): GovernanceRecord => kit.engine.state.governance.record;

const codeOf = (reply: unknown): string => (reply instanceof OrchdError ? reply.code : 'admitted');

const tool = (name: string, category: string, more: Fields = {}): Fields => ({
  type: 'tool',
  tags: { agent: 'clerk', event: 'tool_call', tool: name, category },
  ...more,
});

/** A run of an agent that waits for nothing, so that jobs can be below it. */
function run(kit: EngineKit, id: string, agent: string, more: Fields = {}): void {
  kit.submit(id, { type: 'agent', agent, ...more });
  kit.accept(id);
}

const why = (kit: EngineKit, id: string) => explain(kit.engine.state, kit.job(id));

const causes = (kit: EngineKit): string[] =>
  kit.log.flatMap(({ change }) => (change.kind === 'governance' ? [causeText(change.cause)] : []));

describe('[ADR-7] the mode', () => {
  test('is NORMAL until somebody changes it; every change has a name, a reason and an instant', () => {
    const kit = governed();
    assert.equal(record(kit).mode, 'NORMAL');
    kit.pass(5000);
    setMode(kit, 'ALERT');
    const { mode, by, why: reason, since } = record(kit);
    assert.deepEqual([mode, by, reason, since], ['ALERT', 'ann', 'a test', kit.now]);
    assert.deepEqual(causes(kit), ['mode:ALERT:ann']);
  });

  test('moves only as the table says, and only people lead the way back', () => {
    const ways: Record<string, readonly Mode[]> = {
      NORMAL: ['ALERT', 'DEGRADED', 'LOCKDOWN'],
      ALERT: ['NORMAL', 'DEGRADED', 'LOCKDOWN'],
      DEGRADED: ['LOCKDOWN', 'RECOVERY'],
      LOCKDOWN: ['RECOVERY'],
      RECOVERY: ['NORMAL', 'LOCKDOWN'],
    };
    const path: Record<Mode, readonly Mode[]> = {
      NORMAL: [],
      ALERT: ['ALERT'],
      DEGRADED: ['DEGRADED'],
      LOCKDOWN: ['LOCKDOWN'],
      RECOVERY: ['LOCKDOWN', 'RECOVERY'],
    };
    for (const from of MODES)
      for (const to of MODES)
        for (const isPerson of [true, false]) {
          const kit = governed();
          for (const mode of path[from]) setMode(kit, mode);
          const isBack = ['NORMAL', 'RECOVERY'].includes(to);
          const isAllowed = (ways[from] ?? []).includes(to) && (isPerson || !isBack);
          const reply = order(kit, to, isPerson);
          assert.equal(!(reply instanceof OrchdError), isAllowed, `${from} to ${to}, ${isPerson}`);
          assert.equal(record(kit).mode, isAllowed ? to : from);
        }
  });
});

describe('[ADR-7] by default', () => {
  const ways: Partial<Record<Mode, readonly Mode[]>> = { RECOVERY: ['LOCKDOWN', 'RECOVERY'] };
  const inMode = (mode: Mode): EngineKit => {
    const kit = governed();
    for (const each of ways[mode] ?? (mode === 'NORMAL' ? [] : [mode])) setMode(kit, each);
    return kit;
  };
  const verdicts: Readonly<Record<Mode, string>> = {
    NORMAL: 'read write network command agent mcp other own are admitted',
    ALERT: 'read network agent own are admitted, write command mcp other APPROVAL_REQUIRED',
    DEGRADED: 'read are admitted, write network command agent mcp other own GOVERNANCE_DENIED',
    LOCKDOWN: 'read write network command agent mcp other own are admitted',
    RECOVERY: 'read are admitted, write network command agent mcp other own GOVERNANCE_DENIED',
  };
  for (const mode of MODES)
    test(`${mode}: tools of the categories ${verdicts[mode]}`, () => {
      const kit = inMode(mode);
      const codes = new Map<string, string[]>();
      for (const category of [...TOOL_CATEGORIES, 'own']) {
        const code = codeOf(kit.trySubmit(`t-${category}`, tool('x', category)));
        codes.set(code, [...(codes.get(code) ?? []), category]);
      }
      const told = [...codes].map(
        ([code, of]) => `${of.join(' ')} ${code === 'admitted' ? 'are admitted' : code}`,
      );
      assert.equal(told.join(', '), verdicts[mode]);
    });

  const kinds = ['runs', 'models', 'tools', 'others'] as const;
  const most: Readonly<Record<Mode, readonly number[]>> = {
    NORMAL: [3, 3, 3, 3],
    ALERT: [3, 3, 3, 3],
    DEGRADED: [3, 3, 3, 3],
    LOCKDOWN: [0, 0, 0, 0],
    RECOVERY: [2, 2, 2, 3],
  };
  for (const mode of MODES)
    test(`${mode}: of three jobs of each kind start ${most[mode].map((n, at) => `${n} ${kinds[at]}`).join(', ')}`, () => {
      const kit = governed();
      kit.backend('b', { ...BACKEND, slots: 20 });
      for (const each of ways[mode] ?? (mode === 'NORMAL' ? [] : [mode])) setMode(kit, each);
      for (let n = 0; n < 3; n++) {
        kit.submit(`runs-${n}`, { type: 'agent', agent: 'clerk' });
        kit.submit(`models-${n}`, { type: 'inference' });
        kit.submit(`tools-${n}`, tool('x', 'read'));
        kit.submit(`others-${n}`);
      }
      const started = kinds.map((kind) => kit.claims.filter((id) => id.startsWith(kind)).length);
      assert.deepEqual(started, most[mode]);
    });

  test('ALERT lets a call go on that a person has allowed', () => {
    const kit = inMode('ALERT');
    const tags = { agent: 'clerk', tool: 'x', category: 'write', approved: 'yes' };
    assert.equal(codeOf(kit.trySubmit('w', { type: 'tool', tags })), 'admitted');
    assert.equal(kit.state('w'), 'claimed');
  });
});

describe('[ADR-7] LOCKDOWN', () => {
  test('lets nothing start, tells everybody why, and lets go in order when a person has led the way back', () => {
    const kit = governed();
    kit.submit('running');
    kit.accept('running');
    setMode(kit, 'LOCKDOWN');
    for (const [id, fields] of [
      ['plain', {}],
      ['model', { model: 'm' }],
      ['run', { type: 'agent', agent: 'clerk' }],
      ['call', tool('read_file', 'read')],
    ] as const) {
      kit.submit(id, fields);
      assert.equal(kit.state(id), 'queued', id);
      assert.equal(why(kit, id)?.code, 'governance', id);
      assert.match(why(kit, id)?.text ?? '', /LOCKDOWN since .* by "ann": a test/);
    }
    kit.end('running', SUCCESS);
    assert.equal(kit.state('running'), 'succeeded', 'what runs may end');
    kit.pass(3_600_000);
    assert.equal(kit.state('plain'), 'queued');
    setMode(kit, 'RECOVERY');
    setMode(kit, 'NORMAL');
    for (const id of ['plain', 'run', 'call']) assert.equal(kit.state(id), 'claimed', id);
  });

  test('does not hold up a job that only asks a person', () => {
    const kit = governed();
    setMode(kit, 'LOCKDOWN');
    kit.submit('ask', { type: 'approval' });
    assert.equal(kit.state('ask'), 'claimed');
  });

  test('holds for redriven jobs', () => {
    const kit = governed();
    kit.submit('dead', { max_tries: 1 });
    kit.accept('dead');
    kit.end('dead', { ok: false, error: new OrchdError('EXECUTION_FAILED').info() });
    assert.equal(kit.state('dead'), 'dead');
    setMode(kit, 'LOCKDOWN');
    kit.redrive('dead');
    assert.equal(kit.state('dead'), 'queued');
    assert.equal(why(kit, 'dead')?.code, 'governance');
  });
});

describe('[ADR-7] the limits of a mode', () => {
  const modes = { ...DEFAULT_POLICY.modes, ALERT: { running: { tools: 1 }, perMinute: { others: 2 } } };

  test('bound how many run at once, by kind', () => {
    const kit = governed({ modes });
    setMode(kit, 'ALERT');
    for (const id of ['t1', 't2']) kit.submit(id, tool('read_file', 'read'));
    assert.deepEqual([kit.state('t1'), kit.state('t2')], ['claimed', 'queued']);
    assert.equal(why(kit, 't2')?.code, 'quota');
    assert.match(why(kit, 't2')?.text ?? '', /in the mode ALERT, 1 tools run at once/);
    kit.accept('t1');
    kit.end('t1', SUCCESS);
    assert.equal(kit.state('t2'), 'claimed');
  });

  test('bound how many start in a minute; the others wait for the next one', () => {
    const kit = governed({ modes });
    setMode(kit, 'ALERT');
    for (const id of ['j1', 'j2', 'j3']) kit.submit(id);
    assert.deepEqual([kit.state('j2'), kit.state('j3')], ['claimed', 'queued']);
    assert.match(why(kit, 'j3')?.text ?? '', /2 others start in a minute/);
    kit.pass(59_999);
    assert.equal(kit.state('j3'), 'queued');
    kit.pass(1);
    assert.equal(kit.state('j3'), 'claimed');
  });

  test('go on in a later brain: the starts of this minute count there too, and no longer', () => {
    const kit = governed({ modes });
    setMode(kit, 'ALERT');
    for (const id of ['j1', 'j2', 'j3']) kit.submit(id);
    kit.pass(20_000);
    const later = reopened(kit, { governance: { ...DEFAULT_POLICY, modes } });
    later.backend('b', BACKEND);
    assert.equal(later.state('j3'), 'queued');
    assert.match(why(later, 'j3')?.text ?? '', /2 others start in a minute/);
    later.pass(39_999);
    assert.equal(later.state('j3'), 'queued');
    later.pass(1);
    assert.equal(later.state('j3'), 'claimed');
  });

  test('of none in a minute hold jobs without ever waking the brain, and tell who has set the mode', () => {
    const kit = governed({ modes: { ...modes, ALERT: { perMinute: { others: 0 } } } });
    setMode(kit, 'ALERT');
    kit.submit('j');
    assert.equal(kit.engine.nextWake(), Number.POSITIVE_INFINITY);
    kit.pass(600_000);
    assert.equal(kit.state('j'), 'queued');
    assert.equal(kit.engine.nextWake(), Number.POSITIVE_INFINITY);
    assert.deepEqual(why(kit, 'j')?.code, 'governance');
    setMode(kit, 'NORMAL');
    assert.equal(kit.state('j'), 'claimed');
  });

  for (const [direction, byMs] of Object.entries({ back: -STEP_MS, forward: STEP_MS }))
    test(`have the rest of their minute when brain time is set ${direction}, also in a later brain`, () => {
      const kit = governed({ modes });
      setMode(kit, 'ALERT');
      for (const id of ['j1', 'j2', 'j3']) kit.submit(id);
      kit.pass(20_000);
      kit.now += byMs;
      kit.step({ type: 'clock-step', byMs });
      const later = reopened(kit, { governance: { ...DEFAULT_POLICY, modes } });
      later.backend('b', BACKEND);
      for (const each of [kit, later]) {
        assert.equal(each.state('j3'), 'queued');
        assert.equal(each.engine.nextWake(), kit.now + 40_000);
      }
      for (const each of [kit, later]) {
        each.pass(39_999);
        assert.equal(each.state('j3'), 'queued');
        each.pass(1);
        assert.equal(each.state('j3'), 'claimed');
      }
    });

  test('have the rest of their minute when brain time is set while another mode is in force', () => {
    const kit = governed({ modes });
    setMode(kit, 'ALERT');
    for (const id of ['j1', 'j2']) kit.submit(id);
    setMode(kit, 'NORMAL');
    kit.now -= STEP_MS;
    kit.step({ type: 'clock-step', byMs: -STEP_MS });
    setMode(kit, 'ALERT');
    kit.submit('j3');
    kit.pass(59_999);
    assert.equal(kit.state('j3'), 'queued');
    kit.pass(1);
    assert.equal(kit.state('j3'), 'claimed');
  });

  test('go on where the mode is left and set again within the minute', () => {
    const kit = governed({ modes });
    setMode(kit, 'ALERT');
    for (const id of ['j1', 'j2']) kit.submit(id);
    setMode(kit, 'NORMAL');
    setMode(kit, 'ALERT');
    kit.submit('j3');
    assert.equal(kit.state('j3'), 'queued');
  });

  test('bound the answers of models, and deny none: the attempt notes the longest answer', () => {
    const kit = governed({ modes: { ...modes, ALERT: { maxTokens: 50 } } });
    setMode(kit, 'ALERT');
    const most = (id: string): number | undefined => {
      kit.submit(id, id === 'plain' ? {} : { type: 'inference' });
      return kit.job(id).open?.maxTokens;
    };
    assert.deepEqual([most('call'), most('plain')], [50, undefined]);
    setMode(kit, 'NORMAL');
    assert.equal(most('later'), undefined);
  });

  test('count what runs already, and are gone with the mode', () => {
    const kit = governed({ modes });
    kit.submit('t1', tool('read_file', 'read'));
    setMode(kit, 'ALERT');
    kit.submit('t2', tool('read_file', 'read'));
    assert.equal(kit.state('t2'), 'queued');
    setMode(kit, 'NORMAL');
    assert.equal(kit.state('t2'), 'claimed');
  });

  test('cannot be set as limits of callers', () => {
    const kit = governed();
    const { reply } = kit.step({ type: 'limits', limits: [{ scope: 'mode:tools', running: 9 }], by: 'x' });
    assert.equal(codeOf(reply), 'INVALID_PARAMS');
  });
});

describe('[ADR-7] a call that a rule forbids', () => {
  const rules = [
    { name: 'no-write', effect: 'deny', tools: ['write_file'], reason: 'only people write' },
    { name: 'no-rm', effect: 'deny', tools: ['rm'], critical: true },
    { name: 'ask', effect: 'approve', tools: ['mail'] },
  ] as const;

  test('is refused at admission with the rule and its reason, and audited', () => {
    const kit = governed({ rules });
    run(kit, 'r', 'clerk');
    const reply = kit.trySubmit('r.1', tool('write_file', 'write', { parent_id: 'r' }));
    assert.equal(codeOf(reply), 'GOVERNANCE_DENIED');
    assert.match((reply as OrchdError).message, /"no-write" forbids it: only people write/);
    assert.deepEqual(causes(kit), ['violation:rule:no-write:r.1']);
    const { violations, last, mode } = record(kit);
    assert.deepEqual([violations, last[0]?.tool, mode], [1, 'write_file', 'NORMAL']);
    assert.equal(codeOf(kit.trySubmit('r.2', tool('read_file', 'read', { parent_id: 'r' }))), 'admitted');
  });

  test('has no more rights when the runs above it have ended and left memory', () => {
    const kit = governed({ rights: [{ agent: 'reader', categories: ['read', 'agent'] }] });
    run(kit, 'top', 'reader');
    kit.submit('top.1', tool('start', 'read', { parent_id: 'top' }));
    run(kit, 'low', 'writer', { parent_id: 'top.1' });
    for (const id of ['top.1', 'top']) {
      if (id !== 'top') kit.accept(id);
      kit.end(id, SUCCESS);
      kit.step({ type: 'indexed', uids: [{ uid: id, seq: kit.job(id).seq }] });
      assert.equal(kit.engine.state.jobs.get(id), undefined);
    }
    const reply = kit.trySubmit('low.1', tool('write_file', 'write', { parent_id: 'low' }));
    assert.equal(codeOf(reply), 'GOVERNANCE_DENIED');
    run(kit, 'lower', 'writer', { parent_id: 'low' });
    const below = kit.trySubmit('lower.1', tool('write_file', 'write', { parent_id: 'lower' }));
    assert.equal(codeOf(below), 'GOVERNANCE_DENIED');
  });

  test('is denied by a rule about an agent above it that has ended and left memory, also when it would start', () => {
    const rule = {
      name: 'quiet',
      effect: 'deny',
      agents: ['boss'],
      types: ['agent'],
      modes: ['ALERT'],
    } as const;
    const kit = governed({ rules: [rule] });
    run(kit, 'top', 'boss');
    kit.submit('top.1', tool('start', 'read', { parent_id: 'top' }));
    kit.backend('b', { ...BACKEND, slots: 2 });
    kit.submit('low', { type: 'agent', agent: 'scout', parent_id: 'top.1' });
    assert.equal(kit.state('low'), 'queued');
    setMode(kit, 'ALERT');
    for (const id of ['top.1', 'top']) {
      kit.step({ type: 'pause-job', uid: 'low', by: 'x' });
      if (id !== 'top') kit.accept(id);
      kit.end(id, SUCCESS);
      kit.step({ type: 'indexed', uids: [{ uid: id, seq: kit.job(id).seq }] });
      assert.equal(kit.engine.state.jobs.get(id), undefined);
    }
    kit.step({ type: 'resume-job', uid: 'low', by: 'x' });
    assert.equal(kit.job('low').job.error?.code, 'GOVERNANCE_DENIED');
  });

  test('is forbidden its model by whatever name the rule and the caller have', () => {
    for (const named of ['own', 'nick', 'file:own.gguf']) {
      const kit = governed({ rules: [{ name: 'no', effect: 'deny', models: [named] }] });
      const sizes = {
        sizeBytes: 1,
        vramBytes: 1,
        vramGuessed: undefined,
        contextLength: 100,
        slots: undefined,
      };
      const file = { ref: 'file:own.gguf', sha256: undefined, signature: undefined, publicKey: undefined };
      const model = { id: 'own', name: 'own', aliases: ['nick'], ...sizes, ...file };
      kit.step({ type: 'register', model });
      for (const asked of ['own', 'nick', 'file:own.gguf'])
        assert.equal(
          codeOf(kit.trySubmit(`j-${asked}`, { model: asked, type: 'inference' })),
          'GOVERNANCE_DENIED',
        );
    }
  });

  test('is refused at the claim if it was admitted before the mode changed', () => {
    const kit = new EngineKit({ governance: DEFAULT_POLICY });
    kit.submit('w', tool('write_file', 'write'));
    kit.submit('r', tool('read_file', 'read'));
    setMode(kit, 'DEGRADED');
    kit.backend('b', BACKEND);
    assert.deepEqual([kit.state('w'), kit.state('r')], ['dead', 'claimed']);
    assert.equal(kit.job('w').job.error?.code, 'GOVERNANCE_DENIED');
    assert.deepEqual(causes(kit), ['mode:DEGRADED:ann', 'violation:mode:DEGRADED:w']);
  });

  test('needs an approval by a rule, and goes on with one; not where the mode forbids it by then', () => {
    const kit = governed({ rules });
    assert.equal(codeOf(kit.trySubmit('m1', tool('mail', 'network'))), 'APPROVAL_REQUIRED');
    assert.equal(record(kit).violations, 0, 'to ask is no violation');
    const approved = { tags: { agent: 'clerk', tool: 'mail', category: 'network', approved: 'yes' } };
    assert.equal(codeOf(kit.trySubmit('m2', { type: 'tool', ...approved })), 'admitted');
    setMode(kit, 'DEGRADED');
    assert.equal(codeOf(kit.trySubmit('m3', { type: 'tool', ...approved })), 'GOVERNANCE_DENIED');
  });

  test('is critical: in the same commit the mode is LOCKDOWN, and the run that made it is cancelled', () => {
    const kit = governed({ rules });
    run(kit, 'r', 'clerk');
    run(kit, 'other', 'clerk');
    const { changes } = kit.step({
      type: 'submit',
      submissions: [kitSubmission('r.1', tool('rm', 'command', { parent_id: 'r' }))],
    });
    assert.ok(changes.some(({ kind, id }) => kind === 'job' && id === 'r'));
    assert.deepEqual(causes(kit), ['violation:rule:no-rm:r.1', 'mode:LOCKDOWN:rule:no-rm']);
    assert.equal(record(kit).mode, 'LOCKDOWN');
    assert.equal(kit.job('r').job.cancel?.by, 'rule:no-rm');
    assert.equal(kit.job('other').job.cancel, undefined);
  });

  test('goes on in shadow mode, and is noted', () => {
    const kit = governed({ rules, shadow: true });
    for (const name of ['write_file', 'rm', 'mail']) kit.submit(name, tool(name, 'write'));
    assert.equal(kit.state('rm'), 'claimed');
    assert.equal(record(kit).mode, 'NORMAL');
    assert.deepEqual(
      record(kit).last.map(({ rule, isShadow }) => [rule, isShadow]),
      [
        ['rule:no-write', true],
        ['rule:no-rm', true],
        ['rule:ask', true],
      ],
    );
  });

  test('is one of an agent below an agent that has no such right', () => {
    const kit = governed({ rights: [{ agent: 'reader', categories: ['read', 'agent'] }] });
    run(kit, 'top', 'reader');
    run(kit, 'low', 'writer', { parent_id: 'top' });
    const reply = kit.trySubmit('low.1', tool('write_file', 'write', { parent_id: 'low' }));
    assert.equal(codeOf(reply), 'GOVERNANCE_DENIED');
    run(kit, 'free', 'writer');
    assert.equal(
      codeOf(kit.trySubmit('free.1', tool('write_file', 'write', { parent_id: 'free' }))),
      'admitted',
    );
  });
});
