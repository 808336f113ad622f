import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { EngineKit, type Fields, SUCCESS } from '../../../test/fakes/engine-kit.ts';
import { GB, PoolKit } from '../../../test/fakes/pool-engine.ts';
import { OrchdError } from '../../model/errors.ts';
import type { GateSettings } from '../../model/policy.ts';
import { explain } from '../scheduling/explain.ts';
import { isClosed } from './gates.ts';

const refusal = (kit: EngineKit, id: string, fields: Fields = {}): unknown => {
  const answer = kit.trySubmit(id, fields);
  if (!(answer instanceof OrchdError)) return undefined;
  const { reason, policyLabel, retryAfterMs } = answer.details;
  return [answer.code, reason, policyLabel, retryAfterMs];
};

test('[NEWS-9] between its marks a gate stays as it was', () => {
  const at = (wasClosed: boolean, level: number) => isClosed(wasClosed, level > 9, level < 5);
  assert.deepEqual(
    [4, 5, 9, 10].map((level) => at(false, level)),
    [false, false, false, true],
  );
  assert.deepEqual(
    [10, 9, 5, 4].map((level) => at(true, level)),
    [true, true, true, false],
  );
});

describe('with on_depth reject', () => {
  const gates: GateSettings = { queueDepth: { closeAbove: 3, openBelow: 2, onDepth: 'reject' } };
  const QUEUE = ['RATE_LIMITED', 'queue_depth', 'gates.queue_depth', 1000];

  test('[NEWS-9] new jobs are refused while too many wait, until fewer than the lower mark do', () => {
    const kit = new EngineKit({ gates });
    for (const id of ['a', 'b', 'c', 'd']) assert.equal(refusal(kit, id), undefined);
    assert.deepEqual(refusal(kit, 'e'), QUEUE);
    for (const id of ['a', 'b']) kit.step({ type: 'cancel', uid: id, by: 'x' });
    assert.equal(kit.engine.state.counts.queued, 2);
    assert.deepEqual(refusal(kit, 'e'), QUEUE, 'two wait: the gate opens below two');
    kit.step({ type: 'cancel', uid: 'c', by: 'x' });
    assert.equal(refusal(kit, 'e'), undefined);
  });

  test('a refusal leaves no change, and what a job repeats is still found', () => {
    const kit = new EngineKit({ gates });
    for (const id of ['a', 'b', 'c', 'd']) kit.submit(id, { hash: id });
    const before = kit.log.length;
    assert.deepEqual(refusal(kit, 'e'), QUEUE);
    assert.equal(kit.log.length, before);
    assert.equal(refusal(kit, 'a', { hash: 'a' }), undefined);
  });
});

test('[NEWS-9] the jobs of one agent are refused from the high mark until fewer than the low one wait; others pass', () => {
  const kit = new EngineKit({ gates: { agentWaiting: { high: 3, low: 2 } } });
  const of = (agent: string): Fields => ({ agent });
  const AGENT = ['RATE_LIMITED', 'agent_waiting', 'gates.agent_waiting', 1000];
  for (const id of ['a', 'b', 'c']) assert.equal(refusal(kit, id, of('ann')), undefined);
  for (const id of ['x', 'y']) assert.equal(refusal(kit, id, { ...of('bob'), type: 'u' }), undefined);
  assert.deepEqual(refusal(kit, 'd', of('ann')), AGENT);
  assert.equal(
    refusal(kit, 'e', { ...of('bob'), type: 'u' }),
    undefined,
    'two of bob wait: between the marks',
  );
  assert.equal(refusal(kit, 'f', { ...of('ann'), tenant: 'lab', type: 'u' }), undefined);
  kit.backend('one', { types: ['t'] });
  assert.equal(kit.state('a'), 'claimed');
  assert.deepEqual(refusal(kit, 'd', of('ann')), AGENT, 'two of ann wait');
  kit.accept('a');
  kit.end('a', SUCCESS);
  assert.equal(kit.state('b'), 'claimed');
  assert.equal(refusal(kit, 'd', of('ann')), undefined, 'one of ann waits');
  assert.equal(refusal(kit, 'g', of('ann')), undefined, 'below the high mark again');
});

describe('with on_depth cpu', () => {
  const cpuKit = (): EngineKit => {
    const kit = new EngineKit({ gates: { queueDepth: { closeAbove: 3, openBelow: 2, onDepth: 'cpu' } } });
    kit.backend('gpu', { slots: 1 });
    kit.backend('cpu', { slots: 1, labels: { device: 'cpu' } });
    return kit;
  };
  const placeOf = (kit: EngineKit, id: string): string | undefined => kit.job(id).job.backend;

  test('[NEWS-9] jobs go to backends without a GPU only while too many wait', () => {
    const kit = cpuKit();
    for (const id of ['a', 'b', 'c', 'd']) kit.submit(id);
    assert.deepEqual(
      ['a', 'b'].map((id) => placeOf(kit, id)),
      ['gpu', undefined],
    );
    kit.submit('e');
    assert.equal(placeOf(kit, 'b'), 'cpu');
    kit.accept('b');
    for (const id of ['c', 'd']) {
      const [running] = [...kit.engine.state.open.values()].filter(({ job }) => job.backend === 'gpu');
      kit.end(running?.uid as string, SUCCESS);
      assert.equal(placeOf(kit, id), 'gpu');
    }
    kit.end('b', SUCCESS);
    assert.equal(placeOf(kit, 'e'), undefined, 'one waits: the backend is kept again');
  });

  test('[NEWS-9] a worker is started without a GPU beside the one that is busy, and only while too many wait', () => {
    const kit = new PoolKit({}, { gates: { queueDepth: { closeAbove: 2, openBelow: 2, onDepth: 'cpu' } } });
    kit.model('m');
    kit.pool('gpu', [100]);
    kit.pool('slow', [10], { labels: { device: 'cpu' } });
    kit.ask('first', 'm');
    kit.obey();
    for (const id of ['a', 'b']) kit.ask(id, 'm');
    assert.deepEqual(kit.obey(), []);
    kit.ask('c', 'm');
    assert.deepEqual(kit.obey(), ['start m'], 'as many as there is room for without a GPU');
    assert.equal(placeOf(kit, 'a')?.split('/')[0], 'slow');
  });

  test('a worker without a GPU does not keep a worker on a GPU from being started for jobs that it may not run', () => {
    const kit = new PoolKit(
      { minResidentMs: 0 },
      { gates: { queueDepth: { closeAbove: 2, openBelow: 2, onDepth: 'cpu' } } },
    );
    for (const id of ['m', 'n']) kit.model(id);
    kit.pool('gpu', [10]);
    kit.pool('slow', [10], { labels: { device: 'cpu' } });
    kit.ask('first', 'n');
    assert.deepEqual(kit.obey(), ['start n']);
    for (const id of ['a', 'b', 'c']) kit.ask(id, 'm');
    assert.deepEqual([kit.obey(), placeOf(kit, 'a')?.split('/')[0]], [['start m'], 'slow']);
    for (const id of ['b', 'c']) kit.step({ type: 'cancel', uid: id, by: 'x' });
    kit.end('first', SUCCESS);
    kit.end('a', SUCCESS);
    kit.ask('later', 'm');
    assert.deepEqual([kit.obey(), placeOf(kit, 'later')?.split('/')[0]], [['stop n', 'start m'], 'gpu']);
  });

  test('a job that asks for one gets it at any time', () => {
    const kit = cpuKit();
    kit.submit('a', { labels: { device: 'cpu' } });
    assert.equal(placeOf(kit, 'a'), 'cpu');
  });

  test('a backend that cannot be reached is not used because the gate closes', () => {
    const kit = cpuKit();
    kit.step({ type: 'reachable', name: 'cpu', up: false });
    for (const id of ['a', 'b', 'c', 'd', 'e', 'f']) kit.submit(id);
    assert.equal(placeOf(kit, 'b'), undefined);
  });
});

describe('with on_depth scale_up', () => {
  test('[NEWS-9] another worker is started when too many jobs wait, however short they are', () => {
    const gates: GateSettings = { queueDepth: { closeAbove: 3, openBelow: 2, onDepth: 'scale_up' } };
    const kit = new PoolKit({}, { gates });
    kit.model('m');
    kit.pool('p', [80]);
    kit.ask('a', 'm');
    kit.obey();
    for (const id of ['b', 'c', 'd']) kit.ask(id, 'm');
    assert.deepEqual(kit.obey(), [], 'three wait');
    kit.ask('e', 'm');
    assert.deepEqual(kit.obey(), ['start m', 'start m', 'start m'], 'until one waits');
  });
});

describe('while more than 90 % of the GPU memory is used', () => {
  const gates: GateSettings = { gpuMemory: { closeAbove: 90, openBelow: 80 } };
  const full = (usedGb: number, pools = {}): PoolKit => {
    const kit = new PoolKit(pools, { gates });
    kit.model('m');
    kit.model('other', { vramBytes: 2 * GB });
    kit.pool('p', [100]);
    kit.ask('first', 'm');
    kit.obey();
    setUsed(kit, usedGb);
    return kit;
  };
  const setUsed = (kit: PoolKit, usedGb: number): void => {
    (kit.pools.get('p') as { usedBytes: number }).usedBytes = usedGb * GB;
    kit.report('p');
  };
  const waitsFor = (kit: PoolKit, id: string): string | undefined =>
    explain(kit.engine.state, kit.job(id))?.text;

  test('[NEWS-9] jobs whose model is loaded run, and those that need a worker wait and are told so', () => {
    const kit = full(85);
    kit.ask('needs', 'other');
    assert.deepEqual(kit.obey(), []);
    assert.match(waitsFor(kit, 'needs') ?? '', /no worker is started while 95 % of the GPU memory is used/);
    kit.end('first', SUCCESS);
    kit.ask('loaded', 'm');
    assert.equal(kit.state('loaded'), 'claimed');
  });

  test('[NEWS-9] starts go on below the lower mark, not at the upper one', () => {
    const kit = full(85);
    kit.ask('needs', 'other');
    setUsed(kit, 75);
    assert.deepEqual(kit.obey(), [], '85 %');
    setUsed(kit, 69);
    assert.deepEqual(kit.obey(), ['start other']);
  });

  test('an idle worker makes room until the gate opens', () => {
    const kit = full(81.5);
    kit.end('first', SUCCESS);
    kit.ask('needs', 'other');
    kit.pass(60_000);
    assert.deepEqual(kit.obey(), ['stop m']);
    assert.equal(kit.state('needs'), 'queued');
    setUsed(kit, 70);
    assert.deepEqual(kit.obey(), ['start other']);
  });

  test('a worker without a GPU is started, and no worker is prewarmed', () => {
    const kit = full(85);
    kit.pool('slow', [100], { labels: { device: 'cpu' } });
    kit.ask('needs', 'other');
    assert.deepEqual(kit.obey(), ['start other']);
    assert.equal(kit.job('needs').job.backend?.split('/')[0], 'slow');
  });
});

test('gates that an operator sets are in force in the same step, and in the next brain', () => {
  const gates = {
    queueDepth: { closeAbove: 0, openBelow: 0, onDepth: 'reject' },
    gpuMemory: { closeAbove: 0, openBelow: 0 },
    agentWaiting: { high: 1, low: 0 },
  } as const;
  const order = { values: { gates }, limits: undefined, by: 'ops', why: 'a flood', force: false };
  const kit = new PoolKit();
  kit.step({ type: 'policy', order });
  kit.submit('a');
  assert.ok(refusal(kit, 'b'));
  assert.ok(refusal(kit.reborn(new PoolKit()), 'b'));
  kit.step({ type: 'undo-policy', by: 'ops', why: 'over' });
  assert.equal(refusal(kit, 'b'), undefined);
  assert.equal(refusal(kit.reborn(new PoolKit()), 'c'), undefined);
});

test('all workers of a pool are evicted by one order: busy ones finish their jobs, other pools go on', () => {
  const kit = new PoolKit();
  kit.model('m');
  kit.model('n');
  kit.pool('p', [20]);
  kit.ask('busy', 'm');
  kit.ask('idle', 'n');
  kit.obey();
  kit.pool('q', [10]);
  kit.model('o');
  kit.ask('elsewhere', 'o');
  kit.obey();
  kit.end('idle', SUCCESS);
  const { reply } = kit.step({ type: 'evict-pool', pool: 'p', by: 'ops' });
  assert.equal((reply as readonly string[]).length, 2);
  assert.deepEqual(kit.obey().sort(), ['drain m', 'stop n']);
  kit.end('busy', SUCCESS);
  assert.deepEqual(kit.obey(), ['stop m']);
  assert.equal(kit.engine.state.workers.inPool('q').length, 1);
  const unknown = kit.step({ type: 'evict-pool', pool: 'nope', by: 'ops' }).reply;
  assert.equal((unknown as OrchdError).code, 'NOT_FOUND');
});
