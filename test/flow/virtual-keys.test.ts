/** Virtual keys: tokens that may use some models only, and have a budget. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { RunningServer } from '../../src/app/parts.ts';
import { startServer } from '../../src/app/server.ts';
import { FunctionBackend } from '../../src/backends/local/functions.ts';
import { loadConfig } from '../../src/config/load.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { createLogger } from '../../src/kit/logger.ts';
import { TOKEN_FILE, writeTokens } from '../../src/wire/token-file.ts';
import { makeToken, type TokenEntry, type TokenGrant } from '../../src/wire/tokens.ts';
import { SeededRandom } from '../fakes/world.ts';
import { jsonLines, orchd } from './cli-process.ts';
import { CHAT, post, saysWords, talk } from './openai-kit.ts';
import { testFolder } from './server-process.ts';
import { eventually } from './site-client.ts';

const random = new SeededRandom(11);
const tokenOf = (name: string, grant: TokenGrant = {}, role: TokenEntry['role'] = 'submit') =>
  makeToken(random, 0, name, role, undefined, grant);

const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

test('a token with a list of models is refused every other one, on every door, whether it exists or not', async (t) => {
  const { token, entry } = tokenOf('intern', { models: ['tiny', 'extra*'] });
  const free = tokenOf('free');
  const { brain } = await talk(t, saysWords, { tokens: [entry, free.entry] });
  const headers = bearer(token);
  const task = (fields: object) => ({ type: 'inference', prompt: 'x', ...fields });
  const submit = async (body: unknown, by = headers) => {
    const answer = await post(`${brain.url}/v2/tasks`, body, by);
    return { status: answer.status, text: await answer.text() };
  };
  assert.equal((await submit(task({ model: 'tiny' }))).status, 202);
  assert.equal((await submit(task({ model: 'org/tiny' }), bearer(free.token))).status, 202);
  for (const fields of [
    { model: 'org/tiny' },
    { model: 'no-such' },
    {},
    { type: 'other', prompt: undefined, payload: 1 },
  ]) {
    const { status, text } = await submit(task(fields));
    assert.equal(status, 403, text);
    assert.match(text, /"code":"FORBIDDEN".*"reason":"model_not_allowed"/);
  }
  assert.equal(
    (await submit(task({ model: 'extra-1' }))).status,
    404,
    'one that it may use, and that is not there',
  );

  const many = [task({ model: 'tiny' }), task({ model: 'org/tiny' })];
  const { text } = await submit(many);
  const { answers } = JSON.parse(text) as { answers: { http_status: number }[] };
  assert.deepEqual(
    answers.map(({ http_status }) => http_status),
    [202, 403],
  );
  const lines = await post(`${brain.url}/v2/tasks`, many.map((each) => JSON.stringify(each)).join('\n'), {
    ...headers,
    'content-type': 'application/x-ndjson',
  });
  assert.deepEqual(
    jsonLines(await lines.text()).map((line) => line['http_status']),
    [202, 403],
  );

  const chat = (model: string) => post(`${brain.url}/v1/chat/completions`, { ...CHAT, model }, headers);
  assert.equal((await chat('tiny')).status, 200);
  assert.equal((await chat('org/tiny')).status, 403);
  const listed = async (by: object): Promise<string[]> => {
    const answer = await fetch(`${brain.url}/v1/models`, { headers: { ...by } });
    return ((await answer.json()) as { data: { id: string }[] }).data.map(({ id }) => id);
  };
  assert.deepEqual(await listed(headers), ['tiny']);
  assert.deepEqual(await listed(bearer(free.token)), ['tiny', 'org/tiny']);
  const one = async (id: string) => (await fetch(`${brain.url}/v1/models/${id}`, { headers })).status;
  assert.deepEqual([await one('tiny'), await one('org%2Ftiny')], [200, 404]);
});

const CONFIG = {
  orchestrator: { bind_addr: '127.0.0.1:0' },
  prices: [{ model: 'm', request: 10 }],
  limits: [{ scope: 'token:*', cost_budget: 1000 }],
};

interface Stage {
  readonly folder: string;
  write(...tokens: readonly TokenEntry[]): Promise<void>;
  start(): Promise<RunningServer>;
}

function stage(t: TestContext): Stage {
  const folder = testFolder(t);
  const env = realEnv();
  return {
    folder,
    write: (...tokens) => writeTokens(env.disk, folder, join(folder, TOKEN_FILE), tokens),
    start: async () => {
      const types = { inference: () => ({ text: 'x' }) };
      const server = await startServer({
        config: loadConfig({ text: JSON.stringify(CONFIG) }),
        data: folder,
        version: '0.0.0',
        logger: createLogger({ write: () => undefined, now: () => env.clock.now() }),
        backends: [new FunctionBackend(env, { name: 'seat', slots: 4, models: ['m'], types })],
      });
      t.after(() => server.stop());
      return server;
    },
  };
}

interface Task {
  readonly state: string;
  readonly waiting?: { readonly code: string; readonly text: string };
}

async function submitted(url: string, token: string, job_id: string): Promise<void> {
  const answer = await post(
    `${url}/v2/tasks`,
    { job_id, type: 'inference', model: 'm', prompt: 'x' },
    bearer(token),
  );
  assert.equal(answer.status, 202, await answer.text());
}

const taskOf = async (url: string, token: string, id: string): Promise<Task> =>
  (await (await fetch(`${url}/v2/tasks/${id}`, { headers: bearer(token) })).json()) as Task;

test('the budget of a token is a wall over restarts, and follows the token file', async (t) => {
  const { write, start } = stage(t);
  const { token, entry } = tokenOf('intern', { cost_budget: 25, hard: true });
  await write(entry);
  let server = await start();
  const states = (...ids: string[]) =>
    Promise.all(ids.map(async (id) => (await taskOf(server.url, token, id)).state));
  for (const id of ['a', 'b']) await submitted(server.url, token, id);
  await eventually('two fit into the budget', async () =>
    (await states('a', 'b')).every((state) => state === 'succeeded'),
  );
  await submitted(server.url, token, 'c').then(
    () => assert.fail('it can never fit'),
    (error: Error) => assert.match(error.message, /cost_budget/),
  );
  const limits = await (await fetch(`${server.url}/v2/limits`, { headers: bearer(token) })).json();
  assert.deepEqual(limits, {
    limits: CONFIG.limits,
    keys: [{ scope: 'key:intern', cost_budget: 25, hard: true }],
  });
  await server.stop();

  server = await start();
  await assert.rejects(submitted(server.url, token, 'c'), /of the budget of .*key:intern.*25, 20 are spent/);
  await write({ ...entry, cost_budget: 30 });
  await eventually('the raised budget is in force', () =>
    submitted(server.url, token, 'c').then(
      () => true,
      () => undefined,
    ),
  );
  await eventually('it runs', async () => (await states('c'))[0] === 'succeeded');
  await assert.rejects(submitted(server.url, token, 'd'), /30 are spent/);
});

test('a budget that starts anew lets jobs wait, and they name the key', async (t) => {
  const { write, start } = stage(t);
  const { token, entry } = tokenOf('intern', { cost_budget: 15, window: 'month', hard: true });
  await write(entry);
  const { url } = await start();
  for (const id of ['a', 'b']) await submitted(url, token, id);
  await eventually('the first has ended', async () => (await taskOf(url, token, 'a')).state === 'succeeded');
  const { state, waiting } = await taskOf(url, token, 'b');
  assert.deepEqual([state, waiting?.code], ['queued', 'quota']);
  assert.match(
    waiting?.text ?? '',
    /^the budget of "key:intern" has no room for it: of 15 millionths 10 are spent/,
  );
});

test('nobody but the token file sets the budget of a key', async (t) => {
  const { write, start } = stage(t);
  const { token, entry } = tokenOf('boss', {}, 'admin');
  await write(entry);
  const { url } = await start();
  const answer = await fetch(`${url}/v2/limits`, {
    method: 'PUT',
    headers: { ...bearer(token), 'content-type': 'application/json' },
    body: JSON.stringify({ limits: [{ scope: 'key:boss', cost_budget: 1 }] }),
  });
  assert.equal(answer.status, 400);
  assert.match(await answer.text(), /is not the name of a scope/);
});

test('`orchd token create` makes virtual keys, and refuses what would mean nothing', async (t) => {
  const { folder } = stage(t);
  const create = (...words: string[]) =>
    orchd(['token', 'create', 'x', '--role', 'submit', '--data', folder, ...words]);
  for (const [words, fault] of [
    [['--window', 'day'], /need a --budget/],
    [['--hard'], /need a --budget/],
    [['--budget=-1'], /not an amount/],
    [['--budget', '1e3'], /not an amount/],
    [['--budget', '0.0000001'], /not an amount/],
    [['--budget', '1', '--time-zone', 'UTC'], /needs a --window/],
    [['--budget', '1', '--window', 'day', '--time-zone', 'Mars/Base'], /not a time zone/],
    [['--models', 'a,,b'], /list of names/],
    [['--models', '*a'], /only be at the end/],
  ] as const) {
    const { code, err } = await create(...words);
    assert.equal(code, 2, words.join(' '));
    assert.match(err, fault);
  }
  const made = await create(
    '--models',
    'small, org/*',
    '--budget',
    '12.5',
    '--window',
    'month',
    '--hard',
    '--json',
  );
  const [entry] = jsonLines(made.out);
  assert.deepEqual(
    [entry?.['models'], entry?.['cost_budget'], entry?.['window'], entry?.['hard']],
    [['small', 'org/*'], 12_500_000, 'month', true],
  );
  const listed = await orchd(['token', 'list', '--data', folder]);
  assert.match(listed.out, /models small, org\/\*; at most 12\.50 per month$/m);
});
