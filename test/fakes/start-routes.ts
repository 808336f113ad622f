/** Every way on which a job comes to a start. */
import type { Waits } from '../../src/core/ports/backend.ts';
import { DEFAULT_POLICY } from '../../src/model/governance.ts';
import { type EngineKit, FAILED, FAILED_FOR_NOW, type Fields, SUCCESS, submission } from './engine-kit.ts';
import { PoolKit } from './pool-engine.ts';

export const TYPES = ['t', 'agent', 'tool', 'approval', 'inference'];
export const TOOL: Fields = { type: 'tool', tags: { agent: 'clerk', tool: 'write_file', category: 'write' } };

const waits = (...children: readonly [string, Fields][]): Waits => ({
  ok: 'waits',
  state: '{}',
  children: children.map(([id, fields]) => submission(id, { hash: id, ...fields })),
  needs: 'all',
});

export function site(): PoolKit {
  const kit = new PoolKit({ minResidentMs: 0, maxTotalWorkers: 1 }, { governance: DEFAULT_POLICY });
  kit.backend('b', { slots: 20, types: TYPES });
  return kit;
}

/** A consumer of the pool `p`, whose secret is its name; it alone runs jobs of the type `pulled`. */
function consumer(kit: PoolKit, name: string): void {
  const declared = { pool: 'p', name, token: name, slots: 1, types: ['pulled'], models: undefined };
  const more = { labels: {}, paid: false, listens: undefined, ttlMs: 15_000 };
  kit.step({ type: 'consumer', declared: { ...declared, ...more } });
}

const claim = (kit: PoolKit, name: string): void =>
  void kit.step({ type: 'claim', consumer: name, claim: kit.now, atMost: 9 });

/** A job that a consumer has claimed. */
function pulled(kit: PoolKit): void {
  consumer(kit, 'c');
  kit.submit('j', { type: 'pulled', on_unknown: 'retry' });
  claim(kit, 'c');
}

/** A pool whose manager can start workers of two models, and no other backend that runs them. */
function poolOfWorkers(kit: PoolKit): void {
  kit.backend('b', { slots: 20, types: TYPES, models: ['other'] });
  for (const id of ['m', 'n']) kit.model(id);
  kit.pool('p', [80]);
}

/** A backend with one slot, which the job `first` uses, and for which `j` waits. */
function oneSlot(kit: PoolKit): void {
  kit.backend('small', { types: ['one'] });
  kit.submit('first', { type: 'one' });
  kit.accept('first');
  kit.submit('j', { type: 'one' });
}

export const setMode = (kit: EngineKit, mode: 'LOCKDOWN' | 'DEGRADED'): void => {
  kit.step({ type: 'mode', order: { mode, by: 'ann', why: 'a test', isPerson: true } });
};

/** A run that runs its first step. */
function run(kit: PoolKit, id: string, more: Fields = {}): void {
  kit.submit(id, { type: 'agent', agent: 'clerk', ...more });
  kit.accept(id);
}

function lost(kit: PoolKit, id: string): void {
  kit.submit(id, { on_unknown: 'hold' });
  kit.accept(id);
  kit.lose(id);
  kit.backend('b', { slots: 20, types: TYPES, registry: 'another' });
}

/** Brings a job to where it would start, with the mode set in between; returns its id. */
export const ROUTES: Record<string, (kit: PoolKit, lock: () => void) => string> = {
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
  'a backend that can be reached again': (kit, lock) => {
    kit.backend('far', { types: ['late'] });
    kit.step({ type: 'reachable', name: 'far', up: false });
    kit.submit('j', { type: 'late' });
    lock();
    kit.step({ type: 'reachable', name: 'far', up: true });
    return 'j';
  },
  'a slot that another job leaves': (kit, lock) => {
    oneSlot(kit);
    lock();
    kit.end('first', SUCCESS);
    return 'j';
  },
  'a slot that a cancelled job leaves': (kit, lock) => {
    oneSlot(kit);
    lock();
    kit.cancel('first');
    kit.killed('first', { is: 'ended', outcome: { ok: 'cancelled' } });
    return 'j';
  },
  'an offer that a backend has turned away': (kit, lock) => {
    kit.submit('j');
    lock();
    kit.offered('j', { is: 'busy' });
    kit.killed('j', { is: 'tombstoned' });
    kit.pass(120_000);
    return 'j';
  },
  'an attempt that an inspection has not found': (kit, lock) => {
    kit.submit('j');
    kit.lose('j');
    lock();
    kit.found('j', { is: 'absent' });
    kit.killed('j', { is: 'tombstoned' });
    return 'j';
  },
  'a limit that is raised': (kit, lock) => {
    kit.step({ type: 'limits', limits: [{ scope: 'global', running: 0 }], by: 'x' });
    kit.submit('j');
    lock();
    kit.step({ type: 'limits', limits: [], by: 'x' });
    return 'j';
  },
  'a claim of a consumer: of a stream, over HTTP, of a worker pool': (kit, lock) => {
    consumer(kit, 'c');
    kit.submit('j', { type: 'pulled' });
    lock();
    claim(kit, 'c');
    return 'j';
  },
  'a consumer that comes': (kit, lock) => {
    kit.submit('j', { type: 'pulled' });
    lock();
    consumer(kit, 'c');
    claim(kit, 'c');
    return 'j';
  },
  'what a consumer gives back': (kit, lock) => {
    pulled(kit);
    lock();
    const results = [{ token: kit.token('j'), outcome: { ok: 'returned' } as const }];
    kit.step({ type: 'results', consumer: 'c', results });
    claim(kit, 'c');
    return 'j';
  },
  'what a consumer has claimed and does not know of': (kit, lock) => {
    pulled(kit);
    lock();
    kit.step({ type: 'held', consumer: 'c', held: [], claimed: kit.now });
    claim(kit, 'c');
    return 'j';
  },
  'what a consumer held that has left': (kit, lock) => {
    pulled(kit);
    consumer(kit, 'd');
    lock();
    kit.step({ type: 'consumer-left', consumer: 'c' });
    for (let time = 0; time < 6; time++) {
      kit.pass(5000);
      claim(kit, 'd');
    }
    return 'j';
  },
  'a worker that a pool manager has started': (kit, lock) => {
    poolOfWorkers(kit);
    kit.ask('j', 'm');
    lock();
    kit.obey();
    return 'j';
  },
  'a worker that its pool reports as ready': (kit, lock) => {
    poolOfWorkers(kit);
    kit.ask('j', 'm');
    const [id = '', record] = [...kit.engine.state.workers.entries()][0] ?? [];
    if (record) kit.carryOut('start', id, record);
    lock();
    kit.report('p');
    return 'j';
  },
  'a worker of a worker pool': (kit, lock) => {
    poolOfWorkers(kit);
    kit.step({ type: 'pool-lost', id: 'p' });
    kit.ask('j', 'm');
    lock();
    const named = { agent: undefined, adapter: undefined, variant: undefined, metadata: undefined };
    const spec = { ...named, provisioner: 'managers', model: 'm', desired: 1, holdMs: 0 } as const;
    kit.step({ type: 'worker-pool', id: 'w', order: { is: 'create', spec }, by: 'op' });
    kit.report('p');
    kit.obey();
    return 'j';
  },
  'a policy that allows more workers': (kit, lock) => {
    poolOfWorkers(kit);
    kit.ask('busy', 'n');
    kit.obey();
    kit.accept('busy');
    kit.ask('j', 'm');
    lock();
    const order = { values: { maxTotalWorkers: 2 }, limits: undefined, by: 'op', why: 'x', force: false };
    kit.step({ type: 'policy', order });
    kit.obey();
    return 'j';
  },
};
