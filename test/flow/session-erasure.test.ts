/** A deleted session: no byte of its text in any file or table, of the brain and of its executors. */
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, type TestContext } from 'node:test';
import { CommandBackend } from '../../src/backends/local/command/command.ts';
import type { Orchestrator, Tool } from '../../src/index.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { DEFAULT_TENANT } from '../../src/model/records.ts';
import { ScriptedModel } from '../fakes/scripted-model.ts';
import { isDatabase, LASTING, onStores, refusalOf, start, within } from './flow-kit.ts';
import { foundInData, foundInFolder } from './text-search.ts';

const SESSION = 'talk';
/** Everything that is said in the session, each at another place. */
const SAID = {
  input: 'said-input-f00d',
  args: 'said-args-f00d',
  toolResult: 'said-tool-result-f00d',
  reply: 'said-reply-f00d',
  allowed: 'said-allowed-f00d',
  payload: 'said-payload-f00d',
  output: 'said-output-f00d',
  stderr: 'said-stderr-f00d',
  large: 'said-large-f00d',
  largeResult: 'said-large-result-f00d',
  preference: 'said-preference-f00d',
  earlier: 'said-earlier-f00d',
} as const;
const TEXTS = Object.values(SAID);
const LONG = 'x'.repeat(20_000);

const CONFIG = `
agents:
  - {name: helper, model: scripted, instructions: Help., tools: [look, send], approve: [send]}
`;

const TOOLS: readonly Tool[] = ['look', 'send'].map((name) => ({
  name,
  description: `The tool ${name}.`,
  parameters: { type: 'object', properties: { at: { type: 'string' } } },
  effect: 'pure',
  run: () => `${SAID.toolResult}${name === 'look' ? LONG : ''}`,
}));

const model = () =>
  new ScriptedModel((turn) => {
    if (turn === 0) return { calls: [['a', 'look', { at: SAID.args }]] };
    return turn === 1 ? { calls: [['b', 'send', { at: SAID.args }]] } : { text: `${SAID.reply} ${LONG}` };
  });

/** A command backend that removes what is acknowledged at once. */
function commands(t: TestContext): { folder: string; backend: CommandBackend } {
  const folder = mkdtempSync(join(tmpdir(), 'orchd-erasure-'));
  t.after(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  const real = realEnv();
  const after = (ms: number, run: () => void) => real.timers.after(ms === 60_000 ? 20 : ms, run);
  const env = { ...real, timers: { ...real.timers, after } };
  const sh = (script: string) => ({ argv: ['sh', '-c', script] });
  const types = {
    echoes: sh('cat'),
    says: sh(`cat; echo ${SAID.output}`),
    fails: sh(`cat >/dev/null; echo ${SAID.stderr} >&2; exit 65`),
    long: sh(`cat >/dev/null; echo '"${SAID.largeResult}${LONG}"'`),
  };
  return {
    folder,
    backend: new CommandBackend(env, { name: 'work', folder, slots: 2, types, keepAckedMs: 0 }),
  };
}

async function until(what: string, condition: () => Promise<boolean> | boolean): Promise<void> {
  const poll = async (): Promise<void> => {
    while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 20));
  };
  await within(poll()).catch((error: Error) => assert.fail(`${what}: ${error.message}`));
}

async function talk(brain: Orchestrator): Promise<void> {
  const session_id = SESSION;
  await brain.sessions.create(DEFAULT_TENANT, SESSION, {
    metadata: { preferences: { told: SAID.preference } },
    messages: [{ role: 'user', content: SAID.earlier }],
  });
  await brain.submit({
    job_id: 'run',
    type: 'agent',
    session_id,
    payload: { agent: 'helper', input: SAID.input },
  });
  const waits = async (id: string) => (await brain.get(id).catch(() => undefined))?.wait;
  const find = async () => {
    const { jobs } = await brain.list({ type: 'approval' });
    return jobs.find(({ state }) => state === 'waiting')?.job_id;
  };
  await until('the run asks to be allowed', async () => (await find()) !== undefined);
  const asked = (await find()) as string;
  const step = (await waits(asked))?.step as number;
  await brain.orders.answer(asked, step, { approve: true, by: 'me', why: SAID.allowed }, DEFAULT_TENANT);
  const run = await within(brain.wait('run'));
  assert.match((run.result as { reply: string }).reply, new RegExp(SAID.reply));
  await brain.submit({ job_id: 'says', type: 'says', session_id, payload: { text: SAID.payload } });
  await brain.submit({ job_id: 'fails', type: 'fails', session_id, payload: {}, max_tries: 1 });
  await brain.submit({ job_id: 'long', type: 'long', session_id, payload: `${SAID.large}${LONG}` });
  for (const id of ['says', 'fails', 'long']) await within(brain.wait(id));
}

/** What a caller sees of the session, in one text. */
async function seen(brain: Orchestrator): Promise<string> {
  const { jobs } = await brain.list({ limit: 100 });
  const texts = [
    JSON.stringify(await brain.reads.sessions.get(DEFAULT_TENANT, SESSION).catch(() => undefined)),
    JSON.stringify(await brain.reads.sessions.messages(DEFAULT_TENANT, SESSION).catch(() => undefined)),
  ];
  for (const { job_id } of jobs) {
    texts.push(JSON.stringify(await brain.get(job_id)));
    const json = await brain.getJson(job_id, DEFAULT_TENANT, 'later', 'payload');
    texts.push(typeof json === 'string' ? json : json.pieces.map(String).join(''));
    if (typeof json !== 'string') json.release();
  }
  return texts.join('\n');
}

describe('a session', () => {
  onStores('that is deleted leaves no byte of its text anywhere', LASTING, async (t, data) => {
    const { folder, backend } = commands(t);
    const options = { data, config: CONFIG, tools: TOOLS };
    let brain = await start(t, { ...options, backends: [model().backend(), backend] });
    await talk(brain);
    await brain.submit({ job_id: 'open', type: 'echoes', payload: 'said-by-nobody' });
    await within(brain.wait('open'));
    const before = await seen(brain);
    for (const text of TEXTS)
      assert.ok(before.includes(text), `before the deletion, its owner reads ${text}`);
    await brain.checkpoint();
    assert.ok(
      (await foundInData(data, ['said-by-nobody'])).length > 0,
      'the search finds what is not sealed',
    );
    assert.deepEqual(await foundInData(data, TEXTS), [], 'nothing is readable in the store itself');

    await brain.sessions.remove(DEFAULT_TENANT, SESSION, 'me');
    const after = await seen(brain);
    for (const text of TEXTS) assert.ok(!after.includes(text), `after the deletion, nobody reads ${text}`);
    assert.equal((await brain.get('says')).state, 'succeeded', 'the job stays, without its text');
    assert.equal((await brain.get('fails')).error?.code, 'EXECUTION_FAILED');
    await brain.checkpoint();
    await until('the executor has removed it', () => foundInFolder(folder, TEXTS).length === 0);
    assert.deepEqual(await foundInData(data, TEXTS), []);

    // After a restart nothing of it comes back, and a new session of the same name has a key of its own.
    await within(brain.stop());
    assert.deepEqual(await foundInData(data, TEXTS), []);
    if (!isDatabase(data)) assert.ok(readdirSync(data).includes('session-keys'));
    brain = await start(t, { ...options, backends: [model().backend()] });
    assert.ok(!TEXTS.some((text) => before.includes(text) && after.includes(text)));
    assert.ok(!(await seen(brain)).includes('said-reply'));
    const refused = await refusalOf(() => brain.sessions.remove(DEFAULT_TENANT, SESSION, 'me'));
    assert.equal(refused.code, 'NOT_FOUND');
  });
});
