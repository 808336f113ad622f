/** The gate of governance is on every way on which a job comes to a start. */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { EngineKit, START } from '../../../test/fakes/engine-kit.ts';
import type { PoolKit } from '../../../test/fakes/pool-engine.ts';
import { ROUTES, setMode, site, TOOL, TYPES } from '../../../test/fakes/start-routes.ts';
import { errorInfo } from '../../model/errors.ts';
import { DEFAULT_POLICY } from '../../model/governance.ts';
import type { EngineEvent, EngineEventType } from './areas.ts';

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

type Instances = { readonly [T in EngineEventType]?: (kit: PoolKit) => Extract<EngineEvent, { type: T }> };

const by = 'op';
const ofSession = { tenant: 'default', id: 's' } as const;
const named = { id: 's', metadata: undefined };

/** The events of which no way above makes use. None of them starts anything that waits either. */
const OTHERS: Instances = {
  'archive-sessions': () => ({ type: 'archive-sessions', records: [] }),
  'backend-free': () => ({ type: 'backend-free', name: 'b' }),
  'backend-gone': () => ({ type: 'backend-gone', name: 'gone' }),
  batch: () => ({ type: 'batch', request: { tenant: 'default', id: 'b', jobs: 1 } as never }),
  budget: () => ({ type: 'budget', ...ofSession, tokenBudget: 9 }),
  'clock-step': () => ({ type: 'clock-step', byMs: 60_000 }),
  'create-session': () => ({ type: 'create-session', ...ofSession, content: named as never }),
  'delete-worker-pool': () => ({ type: 'delete-worker-pool', id: 'w' }),
  disagreement: () => ({ type: 'disagreement', found: { backend: 'x' } as never }),
  'drain-consumer': () => ({ type: 'drain-consumer', id: 'p/c', by }),
  'drop-route': () => ({ type: 'drop-route', id: 'r', by }),
  'drop-schedule': () => ({
    type: 'drop-schedule',
    order: { tenant: 'default', name: 's', source: 'api', by },
  }),
  'erase-unused': () => ({ type: 'erase-unused', ...ofSession }),
  erased: () => ({ type: 'erased', id: 'e', n: 1 }),
  evict: () => ({ type: 'evict', worker: 'w', by }),
  'evict-pool': () => ({ type: 'evict-pool', pool: 'p', by }),
  'expire-archived': () => ({ type: 'expire-archived', sessions: [] }),
  'forget-session': () => ({ type: 'forget-session', ...ofSession, by }),
  handled: () => ({ type: 'handled', module: 'm', handled: [], by }),
  heartbeat: () => ({ type: 'heartbeat', lease: 'l', tenant: undefined }),
  indexed: () => ({ type: 'indexed', uids: [] }),
  'key-limits': () => ({ type: 'key-limits', limits: [] }),
  lease: () => ({
    type: 'lease',
    request: { token: 'l', tenant: 'default', agent: 'a', minMemoryMb: 1, ttlMs: 1000 },
  }),
  'mcp-allow': () => ({
    type: 'mcp-allow',
    definition: { server: 's', tool: 't', definition: '{}', hash: 'h' } as never,
    by,
  }),
  'mcp-seen': () => ({ type: 'mcp-seen', definitions: [] }),
  'mcp-task': (kit) => ({ type: 'mcp-task', token: kit.token('runs'), task: { server: 's' } as never }),
  'mcp-task-ended': (kit) => ({ type: 'mcp-task-ended', token: kit.token('runs') }),
  'model-state': () => ({ type: 'model-state', id: 'm', state: 'active' }),
  output: (kit) => ({ type: 'output', token: kit.token('runs') }),
  pause: () => ({ type: 'pause' }),
  'pool-awaited': () => ({ type: 'pool-awaited', name: 'q', awaited: false }),
  'pool-order': () => ({ type: 'pool-order', id: 'p', order: { is: 'reload', model: 'm' }, by }),
  prices: () => ({ type: 'prices', prices: [], by }),
  purge: () => ({ type: 'purge', attemptFloor: 1, endedBefore: START }),
  reconciled: () => ({ type: 'reconciled', backend: 'b' }) as never,
  release: () => ({ type: 'release', lease: 'l', tenant: undefined }),
  'reserve-live': () => ({ type: 'reserve-live' }),
  'rest-purge': () => ({ type: 'rest-purge', restMs: 1 }),
  'resume-seat': () => ({ type: 'resume-seat', seat: 'b', by }),
  route: () => ({ type: 'route', id: 'r', steps: [], by }),
  'session-metadata': () => ({ type: 'session-metadata', ...ofSession, metadata: undefined }),
  space: () => ({ type: 'space', full: false }),
  'start-failed': () => ({ type: 'start-failed', worker: 'w', error: errorInfo('WORKER_TIMEOUT') }),
  'states-stored': () => ({ type: 'states-stored', states: [] }),
  'undo-policy': () => ({ type: 'undo-policy', by, why: 'a test' }),
  verified: () => ({ type: 'verified', id: 'm', verified: { at: START, verdict: 'ok' } as never }),
};

/** Types of the events of the ways above. */
const ofRoutes = new Set(
  Object.values(ROUTES).flatMap((go) => {
    const kit = site();
    go(kit, () => setMode(kit, 'LOCKDOWN'));
    return kit.events.map(({ event }) => event.type);
  }),
);

describe('[ADR-7] every event of the engine is one of a way that passes the gate, or starts nothing', () => {
  test('each is listed', () => {
    const types = globSync('src/core/engine/*.ts')
      .filter((path) => !path.endsWith('.test.ts'))
      .flatMap((path) => [...readFileSync(path, 'utf8').matchAll(/readonly type: '([a-z-]+)'/g)])
      .map(([, type = '']) => type);
    assert.ok(types.length > 60);
    const listed = [...ofRoutes, ...Object.keys(OTHERS)];
    assert.deepEqual([...types].sort(), listed.sort());
  });

  for (const [type, make] of Object.entries(OTHERS))
    test(`${type} starts nothing`, () => {
      const kit = site();
      kit.submit('runs');
      kit.accept('runs');
      kit.model('m');
      kit.pool('p', [80]);
      setMode(kit, 'LOCKDOWN');
      kit.submit('plain');
      kit.submit('tool', TOOL);
      kit.ask('call', 'm');
      const before = kit.claims;
      kit.step(make(kit));
      kit.pass(120_000);
      kit.obey();
      assert.deepEqual(kit.claims, before);
      assert.equal(kit.engine.state.workers.size, 0);
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

test('[ADR-7] an attempt begins in one place, and a job in one; both ask the gate, and so does a claim', () => {
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
  // What a consumer holds has started.
  assert.deepEqual(having('{ hold, '), ['src/core/attempts/claims.ts']);
  assert.ok(having('takeBackForbidden(').includes('src/core/attempts/claims.ts'));
});

test('[ADR-7] work is handed to backends in one place, for attempts alone', () => {
  const files = globSync('src/{runtime,app,api,agents,adapters,wire,relay,stores}/**/*.ts');
  const offering = files
    .filter((path) => !path.endsWith('.test.ts') && /ackend\.offer\(/.test(readFileSync(path, 'utf8')))
    .sort();
  // The first bounds the time of each call of a backend, for the second.
  assert.deepEqual(offering, ['src/runtime/effects.ts', 'src/runtime/guarded.ts']);
});

/** The files that hand jobs to the brain, and for whom. What callers ask for is checked in runtime/prepare.ts. */
const ENTRANCES: Readonly<Record<string, 'a caller' | 'a run'>> = {
  'src/adapters/modules/scan.ts': 'a caller',
  'src/adapters/streams/inbox.ts': 'a caller',
  'src/api/jobs-table.ts': 'a caller',
  'src/api/openai/submitted-job.ts': 'a caller',
  'src/api/run-replays.ts': 'a caller',
  'src/api/runs.ts': 'a caller',
  'src/api/tasks.ts': 'a caller',
  'src/agents/background.ts': 'a run',
  'src/app/run-reads.ts': 'a run',
};

test('[ADR-7] nobody but runs makes calls of tools, or says that a person has allowed one: each entrance is known', () => {
  const files = globSync('src/{api,app,adapters,agents,relay,spool}/**/*.ts').filter(
    (path) => !path.endsWith('.test.ts'),
  );
  const found = files.filter((path) => /\bsubmit(Many)?\(/.test(withoutMembers(readFileSync(path, 'utf8'))));
  assert.deepEqual(found.sort(), Object.keys(ENTRANCES).sort());
  for (const [path, whose] of Object.entries(ENTRANCES))
    if (whose === 'a caller')
      assert.match(readFileSync(path, 'utf8'), /mustBeRunnable: true|callerOf\(call\)/, path);
});

/** The text without declarations of functions of that name. */
const withoutMembers = (text: string): string => text.replace(/function submit\w*\(/g, '');
