/** The seats of a gateway as backends of a brain: a gateway that somebody else runs, at pool.url. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { FakeGateway } from '../fakes/gateway.ts';
import { start, tempFolder } from './flow-kit.ts';
import { fakeGateway, Heard, sourceOf } from './gateway-kit.ts';

type Job = { readonly text?: string; readonly [key: string]: unknown };
const seat = (models: string[] = ['m']) => ({ models, slots: 1 });
const at = (gateway: FakeGateway) => ({ pool: { url: gateway.url, timeout: 9 } });
/** A busy seat is looked at again only when it is reported as free. */
const PATIENT = 'orchestrator: { scheduler: { jit_poll_interval: 1000 } }';

/** A listener that hears of a gateway. */
async function listen(
  t: TestContext,
  gateway: FakeGateway,
  variables: Record<string, string> = {},
): Promise<{ heard: Heard; lines: ReturnType<typeof sourceOf>['lines'] }> {
  const { source, lines } = sourceOf(t, { config: at(gateway), variables });
  const heard = new Heard();
  source.start(heard);
  t.after(() => source.stop());
  return { heard, lines };
}

test('[FANO-5] a seat is a paid backend with its models, slots and registry', async (t) => {
  const gateway = await fakeGateway(t, { a: { models: ['m', 'n'], slots: 2 } });
  const { heard } = await listen(t, gateway);
  await heard.until(({ backends }) => backends.has('a'));
  const { host } = new URL(gateway.url);
  assert.deepEqual(heard.backends.get('a'), {
    name: 'a',
    kind: 'gateway',
    slots: 2,
    types: ['inference'],
    models: ['m', 'n'],
    labels: { gateway: host, seat: 'a' },
    paid: true,
    hasProvider: true,
    isBatched: false,
    keepsResults: true,
    endsWithProcess: true,
    registry: gateway.memory.registry,
    hasForeignModels: true,
    formerModels: [],
    timeoutMs: 9000,
    outage: undefined,
    node: undefined,
  });
});

test('a seat says whether its provider bills batches; the seat of a gateway that does not say is billed in full', async (t) => {
  const gateway = await fakeGateway(t, { a: { ...seat(), batched: true }, b: seat() });
  const { heard } = await listen(t, gateway);
  await heard.until(({ backends }) => backends.size === 2);
  assert.deepEqual(
    ['a', 'b'].map((name) => heard.backends.get(name)?.isBatched),
    [true, false],
  );
});

test('[FANO-5] a job costs one request and an acknowledgement', async (t) => {
  const gateway = await fakeGateway(t, { a: seat() });
  gateway.answersAtOnce = true;
  const { source } = sourceOf(t, { config: at(gateway) });
  const brain = await start(t, { data: tempFolder(t), backends: [], sources: [source] });
  await source.firstReports();
  const { job_id: id } = await brain.submit({ type: 'inference', model: 'm', payload: 'Hello' });
  const job = await brain.wait(id);
  assert.equal((job.result as Job).text, 'You said: Hello');
  await heardAck(gateway, id);
  assert.deepEqual(gateway.paths('POST'), ['/submit_immediate', `/requests/${id}%3A1/ack`]);
  assert.deepEqual(
    gateway.paths('GET').filter((path) => path.startsWith('/requests')),
    [],
  );
  const submit = gateway.calls.find(({ path }) => path === '/submit_immediate');
  assert.equal(submit?.headers.accept, 'text/event-stream');
  const body = JSON.parse(submit?.body ?? '');
  assert.deepEqual(body, {
    payload: { prompt: 'Hello', job_id: id, model: 'm', session_id: '' },
    backend: 'a',
    idempotency_token: `${id}:1`,
    job_id: id,
    thread_id: null,
    timeout_ms: 9000,
  });
});

async function heardAck(gateway: FakeGateway, id: string): Promise<void> {
  const isAcked = () => gateway.memory.requests.some((each) => each.jobId === id && each.isAcknowledged);
  while (!isAcked()) await new Promise((resolve) => setImmediate(resolve));
}

test('[FANO-9] the answer to an offer is lost: the request is found again and made once', async (t) => {
  const gateway = await fakeGateway(t, { a: seat() });
  gateway.answersAtOnce = true;
  gateway.losing.push(/^\/submit_immediate$/);
  const { source } = sourceOf(t, { config: at(gateway) });
  const config = 'orchestrator: { recovery: { sweep_interval_ms: 50 } }';
  const brain = await start(t, { data: tempFolder(t), backends: [], sources: [source], config });
  await source.firstReports();
  const { job_id: id } = await brain.submit({ type: 'inference', model: 'm', payload: 'Hello' });
  assert.equal(((await brain.wait(id)).result as Job).text, 'You said: Hello');
  assert.deepEqual([gateway.begun(id), (await brain.get(id))?.tries], [1, 0]);
});

test('[FANO-6] a busy seat is no try of the job', async (t) => {
  const gateway = await fakeGateway(t, {
    a: { ...seat(), busy: { reason: 'rate_limited', retryAfterMs: 20 } },
  });
  gateway.answersAtOnce = true;
  const { source } = sourceOf(t, { config: at(gateway) });
  const brain = await start(t, { data: tempFolder(t), backends: [], sources: [source] });
  await source.firstReports();
  const { job_id: id } = await brain.submit({ type: 'inference', model: 'm', payload: 'Hello' });
  const refused = () => gateway.paths('POST').filter((path) => path === '/submit_immediate').length;
  while (refused() < 3) await new Promise((resolve) => setImmediate(resolve));
  gateway.change(() => gateway.seats.set('a', seat()));
  const job = await brain.wait(id);
  assert.deepEqual([job.state, job.tries, gateway.begun(id)], ['succeeded', 0, 1]);
});

test('[FANO-6] a seat that was busy is reported as free, also while it is reserved, and only then', async (t) => {
  const gateway = await fakeGateway(t, { a: seat(), b: seat() });
  const { heard } = await listen(t, gateway);
  await heard.until(({ backends }) => backends.size === 2);
  const busy = (reason: 'occupied' | 'reserved') =>
    gateway.change(() => gateway.seats.set('a', { ...seat(), busy: { reason, retryAfterMs: 60_000 } }));
  const seen = async (): Promise<void> => {
    // A seat that is new is presented after what came before it.
    const name = `mark${gateway.seats.size}`;
    gateway.change(() => gateway.seats.set(name, seat()));
    await heard.until(({ backends }) => backends.has(name));
  };
  busy('occupied');
  await seen();
  assert.deepEqual(heard.freed, []);
  busy('reserved');
  await heard.until(({ freed }) => freed.length === 1);
  busy('occupied');
  await seen();
  gateway.change(() => gateway.seats.set('a', seat()));
  await heard.until(({ freed }) => freed.length === 2);
  assert.deepEqual(heard.freed, ['a', 'a']);
});

test('a gateway that goes away is an outage with its reason, and its seats come back with it', async (t) => {
  const gateway = await fakeGateway(t, { a: seat() });
  const { heard, lines } = await listen(t, gateway);
  await heard.until(({ backends }) => backends.has('a'));
  const port = Number(new URL(gateway.url).port);
  await gateway.close();
  await heard.until(({ backends }) => backends.get('a')?.outage !== undefined);
  assert.deepEqual(heard.backends.get('a')?.models, ['m']);
  assert.ok(lines.some(({ level, message }) => level === 'warn' && /gateway cannot be used/.test(message)));
  const next = await fakeGatewayAt(t, port);
  await heard.until(({ backends }) => backends.get('a')?.registry === next.memory.registry);
  assert.equal(heard.backends.get('a')?.outage, undefined);
  // It counts its versions anew, so it is not asked to wait for another one.
  assert.equal(next.calls[0]?.path, '/seats');
});

async function fakeGatewayAt(t: TestContext, port: number): Promise<FakeGateway> {
  const gateway = new FakeGateway({ a: seat() });
  await gateway.listen(port);
  t.after(() => gateway.close());
  return gateway;
}

test('a seat that is gone takes no jobs at once, and is withdrawn when nothing runs any more', async (t) => {
  const gateway = await fakeGateway(t, { a: seat(), b: seat(['n']) });
  const { source } = sourceOf(t, { config: at(gateway) });
  const brain = await start(t, { data: tempFolder(t), backends: [], sources: [source], config: PATIENT });
  const { heard } = await listen(t, gateway);
  await source.firstReports();
  const { job_id: id } = await brain.submit({ type: 'inference', model: 'm', payload: 'Hello' });
  await gateway.works.of(id).begun;
  await heard.until(({ backends }) => backends.size === 2);
  gateway.change(() => gateway.seats.delete('a'));
  await heard.until(({ backends }) => backends.get('a')?.outage !== undefined);
  const { models, formerModels, outage } = heard.backends.get('a') ?? {};
  assert.deepEqual([models, formerModels, outage], [[], ['m'], 'the seat is not configured any more']);
  assert.deepEqual(heard.left, []);
  await gateway.works.of(id).succeed();
  assert.equal((await brain.wait(id)).state, 'succeeded');
  await heard.until(({ left }) => left.length === 1);
  assert.deepEqual([heard.left, [...heard.backends.keys()]], [['a'], ['b']]);
});

test('the token of ORCHD_GATEWAY_TOKEN is sent; a wrong one is said, and is in no line of the log', async (t) => {
  const gateway = await fakeGateway(t, { a: seat() });
  gateway.token = 'right-one';
  const wrong = await listen(t, gateway, { ORCHD_GATEWAY_TOKEN: 'wrong-one' });
  const right = await listen(t, gateway, { ORCHD_GATEWAY_TOKEN: 'right-one' });
  await right.heard.until(({ backends }) => backends.has('a'));
  while (!wrong.lines.some(({ reason }) => /does not accept our token/.test(reason ?? '')))
    await new Promise((resolve) => setImmediate(resolve));
  assert.equal(wrong.heard.backends.size, 0);
  assert.ok(!JSON.stringify([wrong.lines, right.lines]).includes('-one'));
});

test('a brain that starts while the gateway is away knows its seats from the last time', async (t) => {
  const gateway = await fakeGateway(t, { a: seat() });
  const folder = tempFolder(t);
  const first = sourceOf(t, { config: at(gateway), folder }).source;
  const heard = new Heard();
  first.start(heard);
  await heard.until(({ backends }) => backends.has('a'));
  const config = at(gateway);
  await first.stop();
  await gateway.close();
  const { source } = sourceOf(t, { config, folder });
  t.after(() => source.stop());
  const again = new Heard();
  source.start(again);
  await again.until(({ backends }) => backends.has('a'));
  const { models, registry, outage } = again.backends.get('a') ?? {};
  assert.deepEqual([models, registry], [['m'], gateway.memory.registry]);
  assert.ok(outage);
});
