/** Idle sessions leave memory for the archive of the store, can be read there, and come back as they were. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { FunctionContext } from '../../src/backends/local/functions.ts';
import { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { makeToken } from '../../src/wire/tokens.ts';
import { httpBrain } from '../fakes/http-brain.ts';
import { SeededRandom } from '../fakes/world.ts';
import { LASTING, onStores, placed, refusalOf, STORES, start } from './flow-kit.ts';
import {
  ARCHIVING,
  archivedSession,
  JOB,
  LASTING_SESSIONS,
  provider,
  useSession,
} from './session-archive-kit.ts';
import { eventually } from './site-client.ts';

const inMemory = (brain: Orchestrator): number => Orchestrator.engineOf(brain).state.sessions.size;

const brainOn = (t: TestContext, data: string, config = ARCHIVING): Promise<Orchestrator> =>
  start(t, { data, backends: [provider()], config });

/** Runs a brain of its own on this store until it dies at a crash point. */
async function dieAt(crashpoint: string, data: string): Promise<void> {
  const main = join(import.meta.dirname, 'session-archive-main.ts');
  const child = spawn(process.execPath, [main, data, crashpoint], {
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  assert.deepEqual(await once(child, 'exit'), [null, 'SIGKILL']);
}

onStores(
  'an idle session leaves memory, is read without coming back, and comes back with its budget and its use',
  STORES,
  async (t, data) => {
    const brain = await brainOn(t, data);
    const used = await useSession(brain, 's');
    await brain.sessions.setBudget('default', 's', used.tokens_used + 1_000_000);
    const archived = await archivedSession(brain, 's');
    assert.deepEqual(
      { ...archived, used_at: 0 },
      { ...used, used_at: 0, token_budget: used.tokens_used + 1_000_000, archived: true },
    );
    assert.equal(inMemory(brain), 0);
    const again = await useSession(brain, 's');
    assert.equal(again.archived, undefined);
    assert.deepEqual(
      [again.created_at, again.turns, again.token_budget],
      [used.created_at, 2, used.tokens_used + 1_000_000],
    );
    assert.ok(again.tokens_used > used.tokens_used);
    assert.deepEqual(
      (await archivedSession(brain, 's')).tokens_used,
      again.tokens_used,
      'and is archived again',
    );
  },
);

onStores(
  'a spent budget is spent for a session that was archived, over a restart too',
  LASTING,
  async (t, data) => {
    const first = await brainOn(t, data);
    const { tokens_used } = await useSession(first, 's');
    await first.sessions.setBudget('default', 's', tokens_used - 1);
    await archivedSession(first, 's');
    const refuse = (brain: Orchestrator) => refusalOf(() => brain.submit({ ...JOB, session_id: 's' }));
    assert.equal((await refuse(first)).details.reason, 'token_budget');
    await first.stop();
    const second = await brainOn(t, data, LASTING_SESSIONS);
    assert.equal((await second.reads.sessions.get('default', 's')).archived, true);
    assert.equal((await refuse(second)).details.reason, 'token_budget');
    await second.sessions.setBudget('default', 's', undefined);
    assert.equal((await useSession(second, 's')).turns, 2);
  },
);

onStores('sessions of a bulk come back, each from the archive or from memory', STORES, async (t, data) => {
  const brain = await brainOn(t, data);
  await Promise.all(['a', 'b'].map((id) => useSession(brain, id)));
  await Promise.all(['a', 'b'].map((id) => archivedSession(brain, id)));
  const jobs = ['a', 'b', 'new', 'a'].map((session_id) => ({ ...JOB, session_id }));
  for (const answer of await brain.submitMany(jobs)) {
    assert.ok('job_id' in answer, String(answer));
    await brain.wait(answer.job_id);
  }
  const turns = await Promise.all(
    ['a', 'b', 'new'].map(async (id) => (await brain.reads.sessions.get('default', id)).turns),
  );
  assert.deepEqual(turns, [3, 2, 1]);
});

onStores('a deleted session is gone from the archive too', LASTING, async (t, data) => {
  const first = await brainOn(t, data);
  for (const id of ['deleted', 'stays', 'used']) await useSession(first, id);
  for (const id of ['deleted', 'stays', 'used']) await archivedSession(first, id);
  await first.sessions.remove('default', 'deleted', 'test');
  const missing = (brain: Orchestrator, id: string) =>
    refusalOf(() => brain.reads.sessions.get('default', id));
  assert.equal((await missing(first, 'deleted')).code, 'NOT_FOUND');
  assert.equal(
    (await refusalOf(() => first.sessions.remove('default', 'deleted', 'test'))).code,
    'NOT_FOUND',
  );
  // This one is in memory again, and an earlier version of it in the archive.
  await useSession(first, 'used');
  await first.sessions.remove('default', 'used', 'test');
  await first.stop();
  const second = await brainOn(t, data, LASTING_SESSIONS);
  for (const id of ['deleted', 'used']) assert.equal((await missing(second, id)).code, 'NOT_FOUND', id);
  assert.equal((await second.reads.sessions.get('default', 'stays')).archived, true);
  assert.equal((await useSession(second, 'deleted')).turns, 1, 'the name begins a new session');
});

onStores(
  'a job below another one brings the archived session that it names back',
  STORES,
  async (t, data) => {
    const outer = (_: unknown, context: FunctionContext): unknown =>
      context.waited ? 'done' : context.wait({ jobs: [{ ...JOB, job_id: 'below', session_id: 's' }] });
    const backends = [provider(), { name: 'f', types: { outer } }];
    const brain = await start(t, { data, backends, config: ARCHIVING });
    await useSession(brain, 's');
    await brain.sessions.setBudget('default', 's', 1_000_000);
    const { created_at } = await archivedSession(brain, 's');
    await brain.submit({ job_id: 'above', type: 'outer', session_id: 'own' });
    assert.equal((await brain.wait('above')).result, 'done');
    const { turns, token_budget, created_at: begun } = await brain.reads.sessions.get('default', 's');
    assert.deepEqual([turns, token_budget, begun], [2, 1_000_000, created_at]);
  },
);

onStores('an archived session is deleted for good when its retention is over', LASTING, async (t, data) => {
  const config = `${ARCHIVING.replace('orchestrator: {', 'orchestrator: {retention: {sessions_sec: 1.5}, ')}`;
  const brain = await brainOn(t, data, config);
  await useSession(brain, 's');
  await archivedSession(brain, 's');
  await eventually('the session is gone', async () => {
    await brain.sessions.archive.purge(brain.reads.now);
    return (await refusalOf(() => brain.reads.sessions.get('default', 's'))).code === 'NOT_FOUND';
  });
});

onStores(
  'a brain that dies between the archive and its own commit has lost nothing',
  LASTING,
  async (t, data) => {
    await dieAt('sessions:after-archive', data);
    const brain = await brainOn(t, data, LASTING_SESSIONS);
    const session = await brain.reads.sessions.get('default', 's');
    assert.deepEqual([session.archived, session.turns, session.token_budget], [undefined, 1, 100_000]);
    assert.equal((await brain.reads.sessions.list({ tenant: 'default', archived: true })).sessions.length, 0);
    assert.equal((await useSession(brain, 's')).turns, 2, 'memory counts, and not the archive');
  },
);

onStores(
  'a brain that dies in the middle of the deletion of an archived session leaves the rest to the next one',
  LASTING,
  async (t, data) => {
    await dieAt('sessions:after-forget', data);
    const brain = await brainOn(t, data, LASTING_SESSIONS);
    assert.deepEqual(await brain.reads.sessions.list({ tenant: 'default', archived: true }), {
      sessions: [],
    });
    const refused = await refusalOf(() => brain.reads.sessions.get('default', 's'));
    assert.equal(refused.code, 'NOT_FOUND');
    const { turns, token_budget, messages } = await useSession(brain, 's');
    assert.deepEqual([turns, token_budget, messages], [1, null, 0], 'it is another session of that name');
    await brain.sessions.remove('default', 's', 'me');
    await brain.stop();
    const next = await brainOn(t, data, LASTING_SESSIONS);
    assert.deepEqual(await next.reads.sessions.list({ tenant: 'default', archived: true }), { sessions: [] });
  },
);

onStores(
  'another tenant finds nothing of an archived session, and can neither use nor delete it',
  LASTING,
  async (t, data) => {
    const random = new SeededRandom(3);
    const made = {
      lab: makeToken(random, 0, 'ada', 'admin', 'lab'),
      acme: makeToken(random, 0, 'bo', 'admin', 'acme'),
    };
    const brain = await httpBrain({
      ...placed({ data, config: ARCHIVING }),
      backends: [provider()],
      tokens: Object.values(made).map(({ entry }) => entry),
    });
    t.after(() => brain.stop());
    await useSession(brain.orchestrator, 's', 'lab');
    await archivedSession(brain.orchestrator, 's', 'lab');
    const ask = async (who: 'lab' | 'acme', method: string, path: string) => {
      const headers = { authorization: `Bearer ${made[who].token}` };
      const answer = await fetch(brain.url + path, { method, headers });
      const text = await answer.text();
      return { status: answer.status, body: text === '' ? undefined : JSON.parse(text) };
    };
    assert.equal((await ask('acme', 'GET', '/v2/sessions/s')).status, 404);
    assert.equal((await ask('acme', 'DELETE', '/v2/sessions/s')).status, 404);
    assert.deepEqual((await ask('acme', 'GET', '/v2/sessions?archived=true')).body, { sessions: [] });
    assert.equal((await useSession(brain.orchestrator, 's', 'acme')).turns, 1);
    const { status, body } = await ask('lab', 'GET', '/v2/sessions/s');
    assert.deepEqual([status, body.archived, body.turns], [200, true, 1]);
    assert.equal((await ask('lab', 'DELETE', '/v2/sessions/s')).status, 204);
    assert.equal((await ask('lab', 'GET', '/v2/sessions/s')).status, 404);
  },
);

test('lists of sessions in use and in the archive are paged, the last used first', async (t) => {
  const brain = await httpBrain({ backends: [provider()], config: ARCHIVING });
  t.after(() => brain.stop());
  const ids = Array.from({ length: 7 }, (_, n) => `s${n}`);
  const paged = async (query: string): Promise<string[]> => {
    const found: { session_id: string; archived: boolean }[] = [];
    for (let cursor = ''; ; ) {
      const answer = await fetch(`${brain.url}/v2/sessions?limit=3${query}${cursor}`);
      assert.equal(answer.status, 200);
      const page = (await answer.json()) as { sessions: typeof found; cursor?: string };
      found.push(...page.sessions);
      if (page.cursor === undefined) break;
      cursor = `&cursor=${encodeURIComponent(page.cursor)}`;
    }
    for (const { archived } of found) assert.equal(archived, query !== '');
    return found.map(({ session_id }) => session_id);
  };
  for (const id of ids) await useSession(brain.orchestrator, id);
  for (const id of ids) await archivedSession(brain.orchestrator, id);
  const order = await paged('&archived=true');
  assert.deepEqual(order.toSorted(), ids);
  assert.deepEqual(await paged(''), []);
  const { job_id } = await brain.orchestrator.submit({
    ...JOB,
    payload: { tries: ['hold'] },
    session_id: 's3',
  });
  assert.deepEqual(
    [await paged(''), await paged('&archived=true')],
    [['s3'], order.filter((id) => id !== 's3')],
  );
  await brain.orchestrator.cancel(job_id);
  for (const bad of ['limit=0', 'cursor=x', 'archived=maybe', 'limit=1001'])
    assert.equal((await fetch(`${brain.url}/v2/sessions?${bad}`)).status, 400, bad);
});
