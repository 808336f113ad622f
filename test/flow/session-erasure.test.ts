/**
 * A deleted session: no byte of its text in any file or table, of the brain and of its executors: commands, and a seat of
 * a real gateway, which is in a process of its own and before a fake provider.
 */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext } from 'node:test';
import type { GatewaySource } from '../../src/adapters/gateway/gateway-source.ts';
import { CommandBackend } from '../../src/backends/local/command/command.ts';
import { GATEWAY_PROGRAM } from '../../src/daemons/gateway/layout.ts';
import type { JobEvent, Orchestrator, Tool } from '../../src/index.ts';
import type { Env } from '../../src/kit/env/env.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { DEFAULT_TENANT } from '../../src/model/records.ts';
import { FakeOpenAi } from '../fakes/providers/openai.ts';
import { ScriptedModel } from '../fakes/scripted-model.ts';
import { isDatabase, LASTING, onStores, refusalOf, start, within } from './flow-kit.ts';
import { folderFor, sourceOf } from './gateway-kit.ts';
import { ledgerFile } from './provider-kit.ts';
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
  seat: 'said-seat-f00d',
} as const;
const TEXTS = Object.values(SAID);
const LONG = 'x'.repeat(20_000);

const CONFIG = `
agents:
  - {name: helper, model: scripted, instructions: Help., tools: [look, send], approve: [send]}
  - {name: caller, model: chat}
orchestrator: {retention: {history_sec: 3600, audit_sec: 3600}}
`;
/** Longer than what is ended, and the trail of it, are kept. */
const RETAINED_MS = 2 * 3_600_000;
const PURGE_INTERVAL_MS = 60_000;
/** A small body of a job without a session, which is not sealed. */
const OPEN = 'said-by-nobody';

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

/** The real environment, in which the time of the brain passes and its purge runs by order. */
class Time {
  readonly env: Env;
  #passedMs = 0;
  readonly #purges = new Set<() => void>();

  constructor() {
    const real = realEnv();
    const { now, monotonic } = real.clock;
    const clock = { now: () => now() + this.#passedMs, monotonic: () => monotonic() + this.#passedMs };
    const after: Env['timers']['after'] = (ms, run) => {
      if (ms !== PURGE_INTERVAL_MS) return real.timers.after(ms, run);
      this.#purges.add(run);
      return () => void this.#purges.delete(run);
    };
    this.env = { ...real, clock, timers: { ...real.timers, after } };
  }

  pass(ms: number): void {
    this.#passedMs += ms;
  }

  purge(): void {
    for (const run of [...this.#purges]) {
      this.#purges.delete(run);
      run();
    }
  }
}

/** The only seat of a real gateway, whose provider repeats what it hears. */
async function seat(t: TestContext): Promise<{ folder: string; source: GatewaySource }> {
  const provider = new FakeOpenAi(ledgerFile(t));
  await provider.start();
  t.after(() => provider.stop());
  const folder = join(folderFor(t), 'gateway');
  const { url } = provider;
  const seats = [{ name: 'seat', driver: 'openai', mode: 'chat', models: ['chat'], url, keep: false }];
  const config = { gateway: { bind_addr: '127.0.0.1:0', seats } };
  return { folder, source: sourceOf(t, { config, program: GATEWAY_PROGRAM, folder }).source };
}

function commands(t: TestContext): { folder: string; backend: CommandBackend } {
  const folder = folderFor(t);
  const env = realEnv();
  const sh = (script: string) => ({ argv: ['sh', '-c', script] });
  const types = {
    echoes: sh('cat'),
    says: sh(`cat; echo ${SAID.output}`),
    fails: sh(`cat >/dev/null; echo ${SAID.stderr} >&2; exit 65`),
    long: sh(`cat >/dev/null; echo '"${SAID.largeResult}${LONG}"'`),
  };
  return {
    folder,
    backend: new CommandBackend(env, { name: 'work', folder, slots: 2, types }),
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
  await brain.submit({
    job_id: 'seated',
    type: 'agent',
    session_id,
    payload: { agent: 'caller', input: SAID.seat },
  });
  await within(brain.wait('seated'));
}

/** The index of ended jobs does not overwrite the pages of deleted rows. */
const isUnusedPage = (place: string): boolean => place.startsWith('/history.sqlite');

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
    for await (const event of brain.events(job_id)) texts.push(JSON.stringify(event));
  }
  return texts.join('\n');
}

describe('a session', () => {
  onStores(
    'that is deleted ends the streams of its running jobs with their end',
    LASTING,
    async (t, data) => {
      const [begun, mayEnd] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      const talks = {
        name: 'talks',
        slots: 1,
        types: {
          talk: async (_: unknown, { emit }: { emit: (text: string) => void }) => {
            emit(SAID.output);
            begun.resolve();
            await mayEnd.promise;
          },
        },
      };
      const brain = await start(t, { data, backends: [talks] });
      await brain.submit({ job_id: 'talk', type: 'talk', payload: SAID.payload, session_id: SESSION });
      const events: JobEvent[] = [];
      const following = (async () => {
        for await (const event of brain.events('talk')) events.push(event);
      })();
      await within(begun.promise);
      await brain.sessions.remove(DEFAULT_TENANT, SESSION, 'me');
      mayEnd.resolve();
      await within(following);
      const { type, data: end } = events.at(-1) as JobEvent;
      assert.deepEqual([type, (end as { code: string }).code], ['error', 'CANCELLED']);
    },
  );

  onStores('that is deleted leaves no byte of its text anywhere', LASTING, async (t, data) => {
    const { folder, backend } = commands(t);
    const { folder: gateway, source } = await seat(t);
    const time = new Time();
    const options = { data, config: CONFIG, tools: TOOLS, env: time.env };
    let brain = await start(t, { ...options, backends: [model().backend(), backend], sources: [source] });
    await source.firstReports();
    await talk(brain);
    assert.equal((await brain.get('seated.1')).attempts[0]?.backend, 'seat');
    await brain.submit({ job_id: 'open', type: 'echoes', payload: OPEN });
    await within(brain.wait('open'));
    const before = await seen(brain);
    for (const text of TEXTS)
      assert.ok(before.includes(text), `before the deletion, its owner reads ${text}`);
    await brain.checkpoint();
    assert.ok((await foundInData(data, [OPEN])).length > 0, 'the search finds what is not sealed');
    assert.deepEqual(await foundInData(data, TEXTS), [], 'nothing is readable in the store itself');
    for (const executor of [folder, gateway])
      assert.ok(foundInFolder(executor, TEXTS).length > 0, 'an executor has what its readers may ask for');

    await brain.sessions.remove(DEFAULT_TENANT, SESSION, 'me');
    const after = await seen(brain);
    for (const text of TEXTS) assert.ok(!after.includes(text), `after the deletion, nobody reads ${text}`);
    assert.equal((await brain.get('says')).state, 'succeeded', 'the job stays, without its text');
    assert.equal((await brain.get('fails')).error?.code, 'EXECUTION_FAILED');
    await brain.checkpoint();
    assert.deepEqual(foundInFolder(folder, TEXTS), [], 'the command has been told to erase it');
    await until('the gateway has erased it', () => foundInFolder(gateway, TEXTS).length === 0);
    assert.deepEqual(await foundInData(data, TEXTS), []);

    // With a purge the records go too, and small bodies inside of the log: also those that are not sealed.
    time.pass(RETAINED_MS);
    time.purge();
    await until('the jobs are purged', async () => (await brain.list({ limit: 1 })).jobs.length === 0);
    await until('no record of them is left', async () => {
      // A checkpoint without a change before it writes nothing, and removes nothing.
      const { token } = await brain.leases.grant(
        { agent: 'a', minMemoryMb: 0, ttlMs: 60_000 },
        DEFAULT_TENANT,
      );
      await brain.leases.release(token, DEFAULT_TENANT);
      await brain.checkpoint();
      return (await foundInData(data, [OPEN])).every(isUnusedPage);
    });
    assert.deepEqual(await foundInData(data, TEXTS), []);

    // After a restart nothing of it comes back, and a new session of the same name has a key of its own.
    await within(brain.stop());
    assert.deepEqual(await foundInData(data, TEXTS), []);
    if (!isDatabase(data)) assert.ok(readdirSync(data).includes('session-keys'));
    brain = await start(t, { ...options, backends: [model().backend()] });
    assert.ok(!(await seen(brain)).includes('said-reply'));
    const refused = await refusalOf(() => brain.sessions.remove(DEFAULT_TENANT, SESSION, 'me'));
    assert.equal(refused.code, 'NOT_FOUND');
  });
});
