/**
 * What clients hear of workers that run well, fail, hang, die or talk nonsense. Real workers in front of a server
 * that says what the test tells it, a real engine, and a worker that was made to misbehave.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { loadConfig } from '../../src/config/load.ts';
import { writeTinyModel } from '../fakes/gguf.ts';
import { WORKER_COMMAND } from '../fakes/pool-kit.ts';
import { ToldUpstream } from '../fakes/told-upstream.ts';
import { orchd } from './cli-process.ts';
import { testFolder } from './server-process.ts';
import { ABOUT, type Client, eventually, type Follow, MIB } from './site-client.ts';
import { type PoolProcess, poolProcess, QUICK, Shared, Site, words } from './site-kit.ts';

const ONCE = { priority: 'interactive', on_disconnect: 'continue' };
const ODD = { labels: { made: 'odd' } };
/** Words that the upstream says in these tests. */
const ALL = ['good ', 'morning'];

const shared = new Shared();
const modelsFolder = testFolder(shared);
const upstream = new ToldUpstream();
let site: Site;
let client: Client;
let odd: PoolProcess;
let long: Follow;

before(async () => {
  shared.after(() => upstream.close());
  const url = await upstream.listen();
  const { orchestrator } = QUICK;
  const engines = [
    { match: 'openai:*', engine: 'openai', args: ['--upstream', url] },
    { match: 'file:*', engine: 'llama', args: ['--gpu', 'off', '--threads', '1'] },
  ];
  site = await Site.start(shared, {
    config: { ...QUICK, orchestrator: { ...orchestrator, cancel_deadline_ms: 300 } },
    pool: { engines, models: [modelsFolder] },
  });
  client = site.client;
  await client.register('demo-one', { model_ref: 'demo:one' });
  // Long enough for the worker to tell how fast it is; others run beside it.
  long = await client.run({ model: 'demo-one', prompt: words(130), ...ONCE });
  odd = await poolProcess(shared, {
    folder: site.folder,
    id: 'odd',
    brain: site.brain.url,
    config: {
      cpu_memory: 45 * MIB,
      labels: { made: 'odd' },
      worker_command: WORKER_COMMAND,
      allowed_worker_hosts: ['192.0.2.1'],
    },
  });
  await site.heard('ok', 'odd');
});

after(() => shared.end());

/** A worker of its own, and a job on it that has been begun. */
async function begun(
  name: string,
  more: object = {},
): Promise<{ job: string; follow: Follow; worker: string }> {
  // Too large for the pool with the odd workers.
  await client.register(name, { model_ref: `openai:${name}`, vram_bytes: 50 * MIB });
  const job = await client.submit({ model: name, prompt: name, ...ONCE, ...more });
  const follow = await client.follow(job);
  await eventually(`${name} was asked`, async () => upstream.asked(name) === 1);
  const { worker_id } = await client.worker(`openai:${name}`, 'busy');
  return { job, follow, worker: worker_id };
}

async function answers(name: string): Promise<void> {
  await eventually(`${name} was asked again`, async () => upstream.asked(name) === 2);
  await upstream.say(name, ...ALL);
  await upstream.end(name);
}

const strike = async (worker: string, signal: NodeJS.Signals): Promise<void> => {
  process.kill(await site.pid(worker), signal);
};

describe('a worker', { concurrency: 3 }, () => {
  test('that dies before it has said anything is replaced, and the client hears a whole answer', async () => {
    const { job, follow, worker } = await begun('early');
    await strike(worker, 'SIGKILL');
    await answers('early');
    assert.equal((await follow.end()).event, 'end');
    assert.equal(follow.text, ALL.join(''));
    assert.deepEqual(
      (await client.job(job)).attempts.map(({ outcome, error }) => error?.code ?? outcome),
      ['UNKNOWN_OUTCOME', 'succeeded'],
    );
    assert.equal(site.begun(job), 2);
  });

  test('that dies in the middle of an answer ends it with an error: nobody hears two beginnings', async () => {
    const { job, follow, worker } = await begun('middle');
    await upstream.say('middle', 'good ');
    await follow.says(1);
    await strike(worker, 'SIGKILL');
    const { event, data } = await follow.end();
    assert.deepEqual([event, data.code, data.state], ['error', 'UNKNOWN_OUTCOME', 'dead']);
    assert.equal(follow.text, 'good ');
    assert.deepEqual([site.begun(job), upstream.asked('middle')], [1, 1]);
  });

  test('that dies in the middle is replaced where the client can be told to start afresh', async () => {
    const { job, follow, worker } = await begun('afresh', { after_output: 'retry' });
    await upstream.say('afresh', 'good ', 'eve');
    await follow.says(2);
    await strike(worker, 'SIGKILL');
    await answers('afresh');
    assert.equal((await follow.end()).event, 'end');
    assert.equal(follow.events.filter(({ event }) => event === 'reset').length, 1);
    assert.equal(follow.text, ALL.join(''), 'what came after the reset is whole');
    assert.equal(site.begun(job), 2);
  });

  test('that hangs is found out by its pool, ended and replaced', async () => {
    const { job, follow, worker } = await begun('hangs', { after_output: 'retry' });
    await upstream.say('hangs', 'good ');
    await follow.says(1);
    const pid = await site.pid(worker);
    process.kill(pid, 'SIGSTOP');
    await answers('hangs');
    assert.equal((await follow.end()).event, 'end');
    assert.equal(follow.text, ALL.join(''));
    assert.equal(site.begun(job), 2);
    assert.throws(() => process.kill(pid, 0), 'it is gone before another one begins');
  });

  test('that answers after its job was given up changes nothing any more', async () => {
    const { job, follow, worker } = await begun('late');
    await upstream.say('late', 'good ');
    await follow.says(1);
    await strike(worker, 'SIGSTOP');
    await client.done('POST', `/v2/tasks/${job}/cancel`, {});
    const { event, data } = await follow.end();
    assert.deepEqual([event, data.code], ['error', 'CANCELLED'], 'the client does not wait for it');
    await upstream.say('late', 'morning');
    await upstream.end('late');
    await strike(worker, 'SIGCONT');
    await eventually('its end is known', async () => (await client.job(job)).attempts[0]?.state === 'ended');
    assert.equal((await client.job(job)).state, 'cancelled');
    assert.equal(follow.text, 'good ');
    assert.equal(site.begun(job), 1);
  });

  test('[ORCH-1073] whose stream takes too long is told to stop, and the client hears of it', async () => {
    assert.equal(loadConfig({}).pool.workerTimeoutMs, 300_000, 'five minutes where nothing is said');
    const { job, follow } = await begun('slow', { timeout_ms: 2500, max_tries: 1 });
    await upstream.say('slow', 'good ');
    await follow.says(1);
    const { event, data } = await follow.end();
    assert.deepEqual([event, data.code], ['error', 'WORKER_TIMEOUT']);
    await eventually('the worker has stopped', async () => upstream.isLeft('slow'));
    await client.worker('openai:slow', 'ready');
    assert.equal(site.begun(job), 1);
  });

  test('[ORCH-1073] that does not stop when its time is over is told to, and the client hears of the timeout', async () => {
    await client.register('unstoppable');
    const follow = await client.run({ model: 'unstoppable', prompt: 'x', timeout_ms: 300, ...ONCE, ...ODD });
    await follow.says(1);
    const { event, data } = await follow.end();
    assert.deepEqual([event, data.code, data.state], ['error', 'WORKER_TIMEOUT', 'dead']);
    const { worker_id } = await client.worker('demo:unstoppable', 'busy', 'odd');
    const { uri, token } = (await odd.caller.worker(worker_id))!;
    const told = await fetch(`${uri}/cancels`, { headers: { authorization: `Bearer ${token}` } });
    assert.ok(((await told.json()) as { cancels: number }).cancels > 0);
    await client.done('POST', `/v2/workers/${worker_id}/evict`);
  });

  for (const [name, code] of [
    ['garbage', 'WORKER_PROTOCOL'],
    ['nameless', 'WORKER_PROTOCOL'],
    ['unnumbered', 'WORKER_PROTOCOL'],
    ['endless', 'WORKER_PROTOCOL'],
  ]) {
    test(`that sends nonsense is not believed: ${name}`, async () => {
      await client.register(name!);
      const follow = await client.run({ model: name, prompt: 'x', ...ONCE, ...ODD });
      const { event, data } = await follow.end();
      assert.deepEqual([event, data.code], ['error', code]);
      assert.equal(follow.tokens, 0);
      await client.done(
        'POST',
        `/v2/workers/${(await client.worker(`demo:${name}`, 'ready', 'odd')).worker_id}/evict`,
      );
    });
  }
});

test('a worker that its pool shows at an address outside of what is allowed gets nothing', async () => {
  await client.register('foreign');
  const job = await client.submit({ model: 'foreign', prompt: 'x', ...ODD });
  const worker = await eventually('it is shown', async () =>
    (await client.workers('odd')).find(({ model_ref, unusable }) => model_ref === 'demo:foreign' && unusable),
  );
  assert.equal(worker.unusable, 'its address is outside of what is allowed');
  const heardAt = async () => (await client.done('GET', '/v2/pools/odd/health')).heard_at;
  const shownAt = await heardAt();
  await eventually('it is heard of again and again', async () => (await heardAt()) > shownAt + 1500);
  const { state, attempts } = await eventually('it says why it waits', async () => {
    const view = await client.job(job);
    return view.waiting?.text.includes('outside of what is allowed') && view;
  });
  assert.deepEqual([state, attempts], ['queued', []]);
  const shown = (await client.workers('odd')).filter(({ model_ref }) => model_ref === 'demo:foreign');
  assert.equal(shown.length, 1, 'no others are started in its place');
  await client.done('POST', `/v2/tasks/${job}/cancel`, {});
});

test('[ORCH-1122] what a worker says went wrong reaches the client with its own code', async () => {
  const file = join(modelsFolder, 'tiny.gguf');
  writeTinyModel(file, { contextLength: 256 });
  await client.register('tiny', { model_ref: `file:${file}`, vram_bytes: 300 * MIB, context_length: 256 });
  const failure = async (body: object): Promise<unknown[]> => {
    const follow = await client.run({ ...ONCE, ...body });
    const { event, data } = await follow.end();
    return [event, data.code, data.reason];
  };
  // More for the engine, which knows few words, than it looks like from outside.
  const zs = 'z'.repeat(600);
  assert.deepEqual(await failure({ model: 'tiny', prompt: zs }), ['error', 'CONTEXT_TOO_LONG', 'failed']);
  const payload = { prompt: 'x', response_format: { type: 'json_object' } };
  assert.deepEqual(await failure({ model: 'demo-one', payload }), ['error', 'UNSUPPORTED', 'failed']);
  await client.register('strange');
  const strange = await failure({ model: 'strange', prompt: 'x', ...ODD });
  assert.deepEqual(strange, ['error', 'EXECUTION_FAILED', 'GPU_ON_FIRE'], 'one that is not ours is named');
});

test("[ORCH-1122] a worker's own error code is told by the API, the OpenAI surface, the command line and the log", async () => {
  await client.register('strange');
  const job = await client.submit({ model: 'strange', prompt: 'x', ...ODD });
  const { error, attempts } = await client.becomes(job, 'dead');
  for (const told of [error, attempts[0]?.error])
    assert.deepEqual([told?.code, told?.reason], ['EXECUTION_FAILED', 'GPU_ON_FIRE']);
  const chat = { model: 'strange', messages: [{ role: 'user', content: 'x' }] };
  const { body } = await client.ask('POST', '/v1/chat/completions', chat);
  assert.deepEqual([body.error.code, body.error.reason], ['EXECUTION_FAILED', 'GPU_ON_FIRE']);
  const streamed = await fetch(`${client.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ...chat, stream: true }),
  });
  assert.match(await streamed.text(), /"code":"EXECUTION_FAILED".*"reason":"GPU_ON_FIRE"/);
  const words = ['--model', 'strange', '--label', 'made=odd', '--follow', '--url', client.url, 'x'];
  const { err } = await orchd(['submit', ...words]);
  assert.match(err, /it burns \(EXECUTION_FAILED, GPU_ON_FIRE\)/);
  assert.match((await orchd(['show', job, '--url', client.url])).out, /EXECUTION_FAILED, GPU_ON_FIRE/);
  const log = await site.brain.saw('out', new RegExp(`"job_id":"${job}".*"to":"dead"`));
  const line = log.split('\n').find((each) => each.includes(job) && each.includes('"to":"dead"'));
  assert.match(line ?? '', /"error_code":"EXECUTION_FAILED","error_reason":"GPU_ON_FIRE"/);
});

test('[ORCH-1070] [ORCH-1071] events are those of the worker, in order, with what the brain knows of the queue', async () => {
  assert.equal((await long.end()).event, 'end');
  // A slow worker reports its metrics more than once.
  const types = long.events.map(({ event }) => event).filter((event) => event !== 'token');
  assert.deepEqual(
    types.filter((event, at) => event !== types[at - 1]),
    ['queued', 'started', 'metrics', 'end'],
  );
  assert.equal(long.text, ABOUT + words(130));
  const numbers = long.events.flatMap(({ id }) => (/^1\.\d+$/.test(id) ? [Number(id.slice(2))] : []));
  assert.deepEqual(
    numbers,
    numbers.map((_, at) => at + 1),
    'as the worker has numbered them',
  );
  const metrics = long.events.find(({ event }) => event === 'metrics');
  assert.ok(metrics?.data.tokens_per_second > 0);
  const form = { prompt: 'x', response_format: { type: 'json_object' } };
  const failed = await client.run({ model: 'demo-one', payload: form, ...ONCE });
  assert.equal((await failed.end()).event, 'error');
  assert.ok(failed.events.some(({ event }) => event === 'started'));

  await client.register('single', { model_ref: 'openai:single', slots: 1 });
  const prompts = ['first', 'second', 'third', 'fourth'];
  const jobs: Follow[] = [];
  for (const prompt of prompts) jobs.push(await client.run({ model: 'single', prompt, ...ONCE }));
  await upstream.say('first', 'x');
  await upstream.end('first');
  await jobs[0]!.end();
  await upstream.say('second', 'x');
  // What is said of a waiting job is what holds for it, and not for another one.
  const waits = async (at: number): Promise<{ queue_position: number; predicted_start_ms: number }> => {
    const follow = await client.follow(jobs[at]!.events[0]!.data.job_id);
    return (await follow.hears('queued')).events[0]!.data;
  };
  const [third, fourth] = [await waits(2), await waits(3)];
  assert.deepEqual([third.queue_position, fourth.queue_position], [0, 1]);
  assert.ok(third.predicted_start_ms >= 0 && fourth.predicted_start_ms > third.predicted_start_ms);
  for (const prompt of prompts.slice(1)) await upstream.end(prompt);
  for (const follow of jobs) assert.equal((await follow.end()).event, 'end');
});

test('what cannot be run is refused before it waits', async () => {
  const ask = (body: object) => client.ask('POST', '/v2/tasks', { prompt: 'x', ...body });
  const refused = async (body: object): Promise<unknown[]> => {
    const { status, body: said } = await ask(body);
    return [status, said.error?.code, said.error?.reason];
  };
  assert.deepEqual(await refused({ model: 'unknown' }), [404, 'MODEL_NOT_FOUND', undefined]);
  await client.done('POST', '/v2/catalog/models/early/state', { state: 'Retired' });
  assert.deepEqual(await refused({ model: 'early' }), [422, 'ADMISSION_REJECT', 'model_retired']);
  await client.register('huge', { vram_bytes: 5000 * MIB });
  assert.deepEqual((await refused({ model: 'huge' })).slice(0, 2), [409, 'INSUFFICIENT_VRAM']);
  await client.register('short', { model_ref: 'demo:one-more', context_length: 8 });
  const tooLong = await refused({ model: 'short', prompt: words(100) });
  assert.deepEqual(tooLong, [422, 'ADMISSION_REJECT', 'context_length']);
  await client.done('PUT', '/v2/sessions/thrifty', { token_budget: 30 });
  const spend = { model: 'demo-one', prompt: 'one two', max_tokens: 20, session_id: 'thrifty', ...ONCE };
  assert.equal((await (await client.run(spend)).end()).event, 'end');
  assert.deepEqual(await refused(spend), [422, 'ADMISSION_REJECT', 'token_budget']);
});

test('a pool manager that is gone gets nothing new, and what its workers run goes on to the end, once', async () => {
  const { job, follow } = await begun('orphan');
  await upstream.say('orphan', 'good ');
  await follow.says(1);
  await site.pool.kill();
  await site.heard('unreachable');
  const waits = await client.submit({ model: 'orphan', prompt: 'waits' });
  await upstream.say('orphan', 'morning');
  await upstream.end('orphan');
  assert.equal((await follow.end()).event, 'end');
  assert.equal(follow.text, ALL.join(''));
  assert.deepEqual([(await client.job(waits)).state, upstream.asked('waits')], ['queued', 0]);
  assert.deepEqual([site.begun(job), upstream.asked('orphan')], [1, 1]);
  await odd.kill();
});
