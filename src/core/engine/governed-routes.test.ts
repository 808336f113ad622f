/** Every way on which a job comes to a start, and that the gate of governance is on each of them. */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import {
  EngineKit,
  FAILED,
  FAILED_FOR_NOW,
  type Fields,
  submission,
} from '../../../test/fakes/engine-kit.ts';
import { DEFAULT_POLICY } from '../../model/governance.ts';
import type { Waits } from '../ports/backend.ts';

const TYPES = ['t', 'agent', 'tool', 'approval', 'inference'];
const TOOL: Fields = { type: 'tool', tags: { agent: 'clerk', tool: 'write_file', category: 'write' } };

const waits = (...children: readonly [string, Fields][]): Waits => ({
  ok: 'waits',
  state: '{}',
  children: children.map(([id, fields]) => submission(id, { hash: id, ...fields })),
  needs: 'all',
});

function site(): EngineKit {
  const kit = new EngineKit({ governance: DEFAULT_POLICY });
  kit.backend('b', { slots: 20, types: TYPES });
  return kit;
}

const setMode = (kit: EngineKit, mode: 'LOCKDOWN' | 'DEGRADED'): void => {
  kit.step({ type: 'mode', order: { mode, by: 'ann', why: 'a test', isPerson: true } });
};

/** A run that runs its first step. */
function run(kit: EngineKit, id: string, more: Fields = {}): void {
  kit.submit(id, { type: 'agent', agent: 'clerk', ...more });
  kit.accept(id);
}

function lost(kit: EngineKit, id: string): void {
  kit.submit(id, { on_unknown: 'hold' });
  kit.accept(id);
  kit.lose(id);
  kit.backend('b', { slots: 20, types: TYPES, registry: 'another' });
}

/** Brings a job to where it would start, with the mode set in between; returns its id. */
const ROUTES: Record<string, (kit: EngineKit, lock: () => void) => string> = {
  'a caller of the API, a module, an MCP client, a batch': (kit, lock) => {
    lock();
    kit.submit('j');
    return 'j';
  },
  'a call of an agent': (kit, lock) => {
    run(kit, 'r');
    lock();
    kit.end('r', waits(['r.1', { type: 'inference' }]));
    return 'r.1';
  },
  'a call of a tool, also of an MCP server': (kit, lock) => {
    run(kit, 'r');
    lock();
    kit.end('r', waits(['r.1.0', { type: 'tool', tags: { tool: 'x__y', category: 'read' } }]));
    return 'r.1.0';
  },
  'an agent below an agent': (kit, lock) => {
    run(kit, 'r');
    lock();
    kit.end('r', waits(['r.1.0', { type: 'agent', agent: 'helper' }]));
    return 'r.1.0';
  },
  'the next step of a run': (kit, lock) => {
    run(kit, 'r');
    kit.end('r', waits(['r.1', { type: 'inference' }]));
    kit.accept('r.1');
    lock();
    kit.end('r.1', { ok: true, result: '{}' });
    return 'r';
  },
  'an answer to a job that waits, such as an approval': (kit, lock) => {
    run(kit, 'r');
    kit.end('r', { ...waits(), until: kit.now + 1_000_000 } as Waits);
    lock();
    kit.order({ type: 'answer', uid: 'r', step: 1, answer: '{}' });
    return 'r';
  },
  'a tick of a schedule': (kit, lock) => {
    const spec = {
      everyMs: 1000,
      timeZone: 'UTC',
      overlap: 'queue',
      catchUp: 'last',
      request: '{}',
    } as const;
    const of = { tenant: 'default', name: 's' } as const;
    kit.step({
      type: 'schedule',
      order: { ...of, source: 'api', by: 'me', models: undefined, spec },
    });
    const { setAt } = kit.engine.state.tables.schedule.get('default~s') as { setAt: number };
    lock();
    const at = kit.now + 1000;
    kit.step({
      type: 'schedule-tick',
      tick: { ...of, at, setAt, missed: 0, submission: submission('j') },
    });
    return 'j';
  },
  'a retry': (kit, lock) => {
    kit.submit('j');
    kit.accept('j');
    lock();
    kit.end('j', FAILED_FOR_NOW);
    kit.pass(120_000);
    return 'j';
  },
  'a redrive': (kit, lock) => {
    kit.submit('j', { max_tries: 1 });
    kit.accept('j');
    kit.end('j', FAILED);
    lock();
    kit.redrive('j');
    return 'j';
  },
  'a decision to try again': (kit, lock) => {
    lost(kit, 'j');
    kit.found('j', { is: 'unknown' } as never);
    lock();
    kit.order({ type: 'resolve', uid: 'j', by: 'ann', how: { as: 'retry' } });
    return 'j';
  },
  'the end of a pause': (kit, lock) => {
    const idle = kit;
    idle.step({ type: 'limits', limits: [{ scope: 'global', running: 0 }], by: 'x' });
    idle.submit('j');
    idle.step({ type: 'pause-job', uid: 'j', by: 'x' });
    idle.step({ type: 'limits', limits: [], by: 'x' });
    lock();
    idle.step({ type: 'resume-job', uid: 'j', by: 'x' });
    return 'j';
  },
  'the end of a job that it waits for': (kit, lock) => {
    kit.submit('first');
    kit.accept('first');
    kit.submit('j', { after: ['first'] });
    lock();
    kit.end('first', { ok: true, result: '{}' });
    return 'j';
  },
  'its earliest start': (kit, lock) => {
    kit.submit('j', { not_before: kit.now + 1000 });
    lock();
    kit.pass(5000);
    return 'j';
  },
  'a backend that comes': (kit, lock) => {
    kit.submit('j', { type: 'late' });
    lock();
    kit.backend('late', { types: ['late'] });
    return 'j';
  },
};

describe('[ADR-7] every way to a start passes the gate', () => {
  for (const [name, go] of Object.entries(ROUTES))
    test(name, () => {
      // Without the mode the same way leads to a start: otherwise this test would show nothing.
      const open = site();
      assert.match(open.state(go(open, () => undefined)), /claimed|running/);
      const kit = site();
      const id = go(kit, () => setMode(kit, 'LOCKDOWN'));
      assert.equal(kit.state(id), 'queued');
    });

  test('also the rules: a call that was admitted before the mode forbade it', () => {
    const kit = new EngineKit({ governance: DEFAULT_POLICY });
    kit.submit('w', TOOL);
    setMode(kit, 'DEGRADED');
    kit.backend('b', { slots: 1, types: TYPES });
    assert.equal(kit.job('w').job.error?.code, 'GOVERNANCE_DENIED');
  });
});

/** The code of src/core without its tests, by path. */
const sources = globSync('src/core/**/*.ts')
  .filter((path) => !path.endsWith('.test.ts'))
  .map((path) => ({ path, text: readFileSync(path, 'utf8') }));

const having = (text: string): string[] =>
  sources
    .filter((each) => each.text.includes(text))
    .map(({ path }) => path)
    .sort();

test('[ADR-7] an attempt begins in one place, and a job in one; both ask the gate', () => {
  assert.deepEqual(having('newAttempt('), ['src/core/scheduling/schedule.ts']);
  assert.deepEqual(
    having("put('ask'"),
    [
      // A redriven job was admitted before, and passes the gate when it is claimed.
      'src/core/attempts/operator-commands.ts',
      'src/core/admission/submit.ts',
    ].sort(),
  );
  assert.ok(having('whyDenied(').includes('src/core/scheduling/schedule.ts'));
  assert.ok(having('checkGovernance(').includes('src/core/admission/submit.ts'));
});
