/** `orchd status`, `models` and `pools`: the whole as a person and a program see it. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { OrchdClient } from '../../src/client/client.ts';
import { makeToken, type TokenEntry } from '../../src/wire/tokens.ts';
import { type HttpBrain, httpBrain } from '../fakes/http-brain.ts';
import { SeededRandom } from '../fakes/world.ts';
import { type CliBrain, cliBrain, jsonLines, orchd, type Ran, start, until } from './cli-process.ts';

describe('a brain with work of every sort', () => {
  let brain: CliBrain;

  before(async () => {
    brain = await cliBrain();
    const { orchestrator } = brain;
    await orchestrator.submit({ job_id: 'runs', type: 'held', payload: {} });
    await until(() => brain.gate.started.includes('runs'));
    await orchestrator.submit({ job_id: 'waits', type: 'held', payload: {}, priority: 'interactive' });
    await orchestrator.submit({ job_id: 'later', type: 'quiet', payload: {}, not_before: Date.now() + 1e7 });
    await orchestrator.submit({ job_id: 'died', type: 'fail', payload: {} });
    await orchestrator.submit({ job_id: 'lost', type: 'forgotten', payload: {} });
    await orchestrator.wait('died');
    await until(async () => (await orchestrator.get('lost')).state === 'stale');
    await orchestrator.limits.set(
      [
        { scope: 'agent:*', concurrency: 4 },
        { scope: 'global', concurrency: 100 },
      ],
      'test',
    );
  });
  after(async () => {
    brain.gate.open();
    await brain.stop();
  });

  const here = (...words: string[]): Promise<Ran> => orchd(words, { env: { ORCHD_URL: brain.url } });

  test('status shows the queue, what runs, the fleet, near limits, and what to do about the rest', async () => {
    const { code, out, err } = await here('status');
    assert.deepEqual([code, err], [0, '']);
    for (const line of [
      `^orchd 0\\.0\\.0 at ${brain.url}: ok, up .*, store memory, epoch 1$`,
      '^waiting +2 of 10000 \\(1 interactive, 1 for an instant, their session, its backend or a limit\\)$',
      '^running +1$',
      '^unknown +1$',
      '^ended +0 succeeded, 0 cancelled, 1 died since the start$',
      '^runs +held +- +.* narrow$',
      '^narrow +function +up +1 of 1 +held$',
      '^agent:default/anonymous +concurrency +4 of 4$',
      '^lost +forgotten +.* forgetful$',
      '^orchd resolve ID --as retry\\|failed\\|succeeded decides',
      '^died +fail +.* EXECUTION_FAILED: the model said ',
      '^orchd redrive ID queues one again\\.$',
    ])
      assert.match(out, new RegExp(line, 'm'));
    assert.ok(!out.includes('\u001b'));
    assert.doesNotMatch(out, /^global/m, 'a limit that is far away is not shown');
  });

  test('--json has the same for programs, in three requests', async () => {
    const { code, out } = await here('status', '--json');
    assert.equal(code, 0);
    const { status, pools, dead } = JSON.parse(out);
    assert.deepEqual(status.jobs, { queued: 2, claimed: 0, running: 1, waiting: 0, stale: 1 });
    assert.deepEqual(
      status.held.map(({ job_id }: { job_id: string }) => job_id),
      ['lost'],
    );
    assert.deepEqual(pools, []);
    assert.equal(dead.jobs[0].job_id, 'died');
  });

  test('without models and pools a sentence says how to get some', async () => {
    const [models, pools] = await Promise.all([here('models'), here('pools')]);
    assert.deepEqual([models.code, models.out, pools.code, pools.out], [0, '', 0, '']);
    assert.match(models.err, /no models: `orchd up --model FILE\.gguf` brings one/);
    assert.match(pools.err, /no pools: /);
  });
});

test('models that only a backend offers are listed, with the jobs that wait for them', async (t) => {
  const opened = Promise.withResolvers<void>();
  const brain = await httpBrain({
    backends: [{ name: 'one', slots: 1, models: ['tiny'], types: { inference: () => opened.promise } }],
  });
  t.after(() => brain.stop());
  for (let n = 0; n < 3; n++) await brain.orchestrator.submit({ model: 'tiny', prompt: 'hello' });
  const env = { ORCHD_URL: brain.url };
  await until(async () => (await new OrchdClient({ url: brain.url }).status()).jobs.running === 1);
  const { out } = await orchd(['models'], { env });
  assert.match(out, /^tiny +ready +- +1 +1 of 1 +2 +a backend offers it$/m);
  const [model] = jsonLines((await orchd(['models', '--json'], { env })).out);
  assert.deepEqual([model?.['name'], model?.['waiting'], model?.['source']], ['tiny', 2, 'backend']);
  opened.resolve();
});

describe('tenants', () => {
  const tokens: TokenEntry[] = [];
  let brain: HttpBrain;
  const opened = Promise.withResolvers<void>();
  const random = new SeededRandom(7);
  const acme = makeToken(random, 0, 'ada', 'read', 'acme');
  const operator = makeToken(random, 0, 'op', 'read');

  before(async () => {
    tokens.push(acme.entry, operator.entry);
    brain = await httpBrain({
      tokens,
      backends: [{ name: 'one', slots: 2, models: ['tiny'], types: { inference: () => opened.promise } }],
    });
    const work = { model: 'tiny', prompt: 'hello' };
    await brain.orchestrator.submit({ ...work, job_id: 'secret' });
    await brain.orchestrator.submit({ ...work, job_id: 'own' }, { tenant: 'acme' });
    await brain.orchestrator.submit({ ...work, job_id: 'more' });
    const client = new OrchdClient({ url: brain.url, token: operator.token });
    await until(async () => (await client.status()).jobs.running === 2);
  });
  after(async () => {
    opened.resolve();
    await brain.stop();
  });

  test('a tenant sees its own jobs, and nothing of what others use', async () => {
    const { code, out } = await orchd(['status', '--json', '--url', brain.url, '--token', acme.token]);
    assert.equal(code, 0);
    const { status, pools } = JSON.parse(out);
    assert.deepEqual(status.jobs, { queued: 0, claimed: 0, running: 1, waiting: 0, stale: 0 });
    assert.deepEqual([status.running.length, status.running[0].job_id], [1, 'own']);
    assert.equal(pools, undefined);
    assert.deepEqual(
      [status.totals, status.queue.ready, status.backends[0].used],
      [undefined, undefined, undefined],
    );
    assert.deepEqual([status.models[0].used, status.models[0].waiting], [undefined, undefined]);
    assert.ok(!out.includes('secret'));
  });

  test('the operator sees how much all tenants use, and the jobs of the own tenant', async () => {
    const { out } = await orchd(['status', '--json', '--url', brain.url, '--token', operator.token]);
    const { status } = JSON.parse(out);
    assert.deepEqual(status.jobs, { queued: 1, claimed: 0, running: 2, waiting: 0, stale: 0 });
    assert.deepEqual([status.running.length, status.running[0].job_id], [1, 'secret']);
    assert.deepEqual([status.models[0].used, status.models[0].waiting], [2, 1]);
    assert.ok(!out.includes('"own"'));
  });
});

test('status --watch goes on over a restart of the brain, and Ctrl-C ends it', async (t) => {
  const data = mkdtempSync(join(tmpdir(), 'orchd-watch-'));
  const up = (port: string) => start(['up', '--port', port, '--data', data]);
  const first = up('0');
  const url = /listens on (\S+)/.exec(await first.saw('err', /press Ctrl-C to stop/))![1]!;
  const watch = start(['status', '--watch', '--url', url]);
  await watch.saw('out', /^orchd .*: ok/m);
  first.child.kill('SIGKILL');
  await watch.saw('err', /nothing answers at .*; trying again|cannot be reached .*; trying again/);
  const second = up(new URL(url).port);
  t.after(async () => {
    second.child.kill('SIGKILL');
    await second.ended;
    rmSync(data, { recursive: true, force: true, maxRetries: 5 });
  });
  await watch.saw('err', /the brain answers again; it started/);
  watch.child.kill('SIGINT');
  assert.equal((await watch.ended).code, 130);
});
