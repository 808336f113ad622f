/** `orchd up` with a chat page as a seat: the brain, its gateway and Chromium in processes of their own. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { ChatPage, SELECTORS } from '../fakes/chat-page.ts';
import { needDebian } from '../fakes/debian.ts';
import { chromiumPids } from './browser-seat-kit.ts';
import { start, until } from './cli-process.ts';
import { serve, testFolder } from './server-process.ts';

interface Job {
  readonly state: string;
  readonly result?: { readonly text: string; readonly thread_id: string };
}

class Site {
  readonly chat = new ChatPage();
  readonly data: string;
  readonly #t: TestContext;
  #url = '';

  constructor(t: TestContext) {
    const stops: (() => void)[] = [];
    // Before the hook that removes the folder, which names the process of the gateway.
    t.after(() => {
      for (const stop of stops) stop();
    });
    this.#t = t;
    this.data = join(testFolder(t), 'data');
    stops.push(() => process.kill(this.gatewayPid, 'SIGKILL'));
    t.after(() => this.chat.close());
  }

  get gatewayPid(): number {
    return JSON.parse(readFileSync(join(this.data, 'gateway', 'address.json'), 'utf8')).process.pid;
  }

  get profile(): string {
    return join(this.data, 'gateway', 'profiles', 's');
  }

  async up(): Promise<void> {
    await this.chat.listen();
    const seat = {
      name: 's',
      driver: 'browser',
      url: this.chat.url,
      models: ['m'],
      selectors: SELECTORS,
      executable: await needDebian('chromium'),
      args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'],
      settle_ms: 200,
    };
    const config = {
      gateway: { bind_addr: '127.0.0.1:0', seats: [seat] },
      orchestrator: { recovery: { holder_lost_ms: 500, sweep_interval_ms: 100 } },
    };
    const brain = await serve(this.#t, { data: this.data, config });
    this.#url = brain.url;
    this.#t.after(() => brain.kill());
  }

  async submit(id: string, fields: object): Promise<void> {
    const body = JSON.stringify({ job_id: id, model: 'm', ...fields });
    const headers = { 'content-type': 'application/json' };
    assert.equal((await fetch(`${this.#url}/v2/tasks`, { method: 'POST', headers, body })).status, 202);
  }

  async job(id: string): Promise<Job> {
    return (await fetch(`${this.#url}/v2/tasks/${id}`)).json() as never;
  }

  /** Waits until a job has this state. */
  becomes(id: string, state: string): Promise<void> {
    return until(async () => (await this.job(id)).state === state);
  }

  answer(text: string): void {
    this.chat.step({ add: text });
    this.chat.step({ end: true });
  }
}

test('jobs go on with a conversation by thread_id of their payload; one whose gateway dies after the send is held', {
  timeout: 120_000,
}, async (t) => {
  const site = new Site(t);
  const { chat } = site;
  await site.up();
  await site.submit('one', { prompt: 'One?' });
  await chat.sent(1);
  const config = `${site.data}.yaml`;
  const login = await start([
    'gateway',
    'login',
    's',
    '--config',
    config,
    '--data',
    join(site.data, 'gateway'),
  ]).ended;
  assert.equal(login.code, 2);
  assert.match(login.err, /a gateway uses the profile .*profiles\/s: stop it first/);
  site.answer('First.');
  await site.becomes('one', 'succeeded');
  const { result } = await site.job('one');
  assert.deepEqual([result?.text, result?.thread_id], ['First.', `${chat.origin}/c/0`]);

  await site.submit('two', { payload: { prompt: 'Two?', thread_id: result?.thread_id } });
  await chat.sent(2);
  site.answer('Second.');
  await site.becomes('two', 'succeeded');
  assert.equal((await site.job('two')).result?.thread_id, result?.thread_id);

  await site.submit('three', { prompt: 'Three?' });
  await chat.sent(3);
  process.kill(site.gatewayPid, 'SIGKILL');
  await site.becomes('three', 'stale');
  await site.submit('four', { prompt: 'Four?' });
  await chat.sent(4);
  site.answer('Fourth.');
  await site.becomes('four', 'succeeded');
  assert.deepEqual(chat.prompts, ['One?', 'Two?', 'Three?', 'Four?'], 'none was sent twice');
  assert.equal(chromiumPids(site.profile).length, 1, 'the Chromium of the dead gateway has ended');
});
