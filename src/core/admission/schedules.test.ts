import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EngineKit, refusal, submission } from '../../../test/fakes/engine-kit.ts';
import { OrchdError } from '../../model/errors.ts';
import { DEFAULT_TENANT, scoped } from '../../model/records.ts';
import type { Overlap, ScheduleRecord, ScheduleSpec } from '../../model/schedule.ts';
import type { Tick, TickDecision } from './schedules.ts';

const ID = scoped(DEFAULT_TENANT, 's');
const SPEC: ScheduleSpec = {
  everyMs: 1000,
  timeZone: 'UTC',
  overlap: 'queue',
  catchUp: 'all',
  request: '{"type":"t"}',
};

function set(
  kit: EngineKit,
  spec: Partial<ScheduleSpec> = {},
  source: ScheduleRecord['source'] = 'api',
): unknown {
  const order = {
    tenant: DEFAULT_TENANT,
    name: 's',
    source,
    by: 'me',
    models: undefined,
    spec: { ...SPEC, ...spec },
  };
  return kit.step({ type: 'schedule', order }).reply;
}

const recordOf = (kit: EngineKit): ScheduleRecord =>
  kit.engine.state.tables.schedule.get(ID) as ScheduleRecord;

function tick(kit: EngineKit, at: number, more: Partial<Tick> = {}): TickDecision<unknown> | OrchdError {
  const { setAt } = recordOf(kit);
  const due = {
    tenant: DEFAULT_TENANT,
    name: 's',
    at,
    setAt,
    missed: 0,
    submission: submission(`j${at}`),
    ...more,
  };
  return kit.step({ type: 'schedule-tick', tick: due }).reply as TickDecision<unknown> | OrchdError;
}

const isOf = (decision: unknown): string | undefined => (decision as { is?: string }).is;

test('a tick is decided with its job in one step, and never again', () => {
  const kit = new EngineKit();
  set(kit);
  const at = kit.now + 1000;
  const { changes } = kit.step({
    type: 'schedule-tick',
    tick: {
      tenant: DEFAULT_TENANT,
      name: 's',
      at,
      setAt: recordOf(kit).setAt,
      missed: 0,
      submission: submission('j'),
    },
  });
  assert.deepEqual([...new Set(changes.map(({ kind }) => kind))].sort(), ['ask', 'schedule']);
  assert.deepEqual([recordOf(kit).tickedTo, recordOf(kit).lastJob, recordOf(kit).admitted], [at, 'j', 1]);
  for (const again of [at, at - 500]) assert.equal(isOf(tick(kit, again)), 'decided');
  assert.equal(kit.engine.state.jobs.size, 1);
});

test('a tick that was computed before a change of its schedule changes nothing', () => {
  const kit = new EngineKit();
  set(kit);
  const { setAt } = recordOf(kit);
  kit.pass(10);
  set(kit, { everyMs: 5000 });
  assert.equal(isOf(tick(kit, kit.now + 1000, { setAt })), 'decided');
  kit.step({ type: 'drop-schedule', order: { tenant: DEFAULT_TENANT, name: 's', source: 'api', by: 'me' } });
  const gone = {
    tenant: DEFAULT_TENANT,
    name: 's',
    at: kit.now + 1000,
    setAt,
    missed: 0,
    submission: submission('x'),
  };
  assert.equal(isOf(kit.step({ type: 'schedule-tick', tick: gone }).reply), 'decided');
  assert.equal(kit.engine.state.jobs.size, 0);
});

for (const [overlap, second, firstState] of [
  ['skip', 'skipped', 'queued'],
  ['queue', 'admitted', 'queued'],
  ['replace', 'admitted', 'cancelled'],
] as const satisfies readonly [Overlap, string, string][])
  test(`overlap ${overlap}: while the job before goes on, a tick is ${second}`, () => {
    const kit = new EngineKit();
    set(kit, { overlap });
    const [one, two, three] = [1, 2, 3].map((n) => kit.now + n * 1000) as [number, number, number];
    tick(kit, one);
    assert.equal(isOf(tick(kit, two)), second);
    assert.equal(kit.state(`j${one}`), firstState);
    assert.equal(recordOf(kit).tickedTo, two);
    for (const uid of kit.engine.state.jobs.keys()) kit.cancel(uid);
    assert.equal(isOf(tick(kit, three)), 'admitted', 'after its end the next one runs by every rule');
  });

test('a job that is refused for good is a refused tick; one that is refused for now leaves the tick to be decided', () => {
  const kit = new EngineKit({ queueCapacity: 1 });
  set(kit, { overlap: 'replace' });
  const [one, two] = [kit.now + 1000, kit.now + 2000];
  const refused = tick(kit, one, { submission: undefined, refusal: new OrchdError('INVALID_PARAMS', 'no') });
  assert.deepEqual(
    [isOf(refused), recordOf(kit).last?.error, recordOf(kit).refused],
    ['refused', 'INVALID_PARAMS: no', 1],
  );
  kit.submit('other');
  const full = tick(kit, two);
  assert.ok(full instanceof OrchdError && full.retriable);
  assert.equal(recordOf(kit).tickedTo, one);
  kit.cancel('other');
  assert.equal(isOf(tick(kit, two)), 'admitted');
});

test('missed ticks are counted, and not decided any more', () => {
  const kit = new EngineKit();
  set(kit);
  assert.equal(isOf(tick(kit, kit.now + 3000, { submission: undefined, missed: 1 })), 'missed');
  assert.deepEqual(
    [recordOf(kit).missed, recordOf(kit).tickedTo, recordOf(kit).last],
    [1, kit.now + 3000, undefined],
  );
});

test('a schedule that is wrong is refused with its field, and changes nothing', () => {
  const kit = new EngineKit();
  for (const [spec, field] of [
    [{ everyMs: undefined, cron: '0 0 30 2 *' }, 'cron'],
    [{ everyMs: undefined }, 'cron'],
    [{ timeZone: 'Mars' }, 'time_zone'],
    [{ request: ' '.repeat(70_000) }, 'job'],
  ] as const) {
    const reply = set(kit, spec);
    assert.ok(reply instanceof OrchdError && reply.code === 'INVALID_PARAMS');
    assert.equal(reply.details.field, field);
  }
  assert.equal(kit.engine.state.tables.schedule.size, 0);
});

test('the API changes no schedule of the configuration, which takes over one of the API', () => {
  const kit = new EngineKit();
  set(kit, {}, 'api');
  set(kit, {}, 'config');
  assert.equal(recordOf(kit).source, 'config');
  const reply = set(kit, {}, 'api');
  assert.throws(() => {
    throw reply;
  }, refusal('ILLEGAL_STATE'));
});
