/** `orchd up` with a seat: the brain, its own gateway and a provider, each in a process of its own but for the last. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { FakeOpenAi } from '../fakes/providers/openai.ts';
import { until } from './cli-process.ts';
import { type ServerProcess, serve, testFolder } from './server-process.ts';

const KEY = 'sk-never-on-disk';
const TEST_TIMEOUT_MS = 180_000;

interface Report {
  readonly reports: readonly {
    readonly backends: readonly { readonly attempts: readonly { token: string; found: string }[] }[];
  }[];
}

class Site {
  readonly provider: FakeOpenAi;
  readonly data: string;
  readonly #t: TestContext;
  readonly #brains: ServerProcess[] = [];

  constructor(t: TestContext) {
    // Before the hook that removes the folder, which names the process; a brain would start another one.
    t.after(async () => {
      for (const brain of this.#brains) await brain.kill();
      process.kill(this.gatewayPid, 'SIGKILL');
    });
    const folder = testFolder(t);
    this.#t = t;
    this.data = join(folder, 'data');
    this.provider = new FakeOpenAi(join(folder, 'bills.jsonl'));
    this.provider.key = KEY;
    t.after(() => this.provider.stop());
  }

  async up(): Promise<ServerProcess> {
    const { url } = this.provider;
    const seat = { name: 's', driver: 'openai', mode: 'responses', url, key_env: 'SEAT_KEY', models: ['m'] };
    const config = {
      gateway: { bind_addr: '127.0.0.1:0', seats: [seat] },
      orchestrator: { recovery: { holder_lost_ms: 500, sweep_interval_ms: 100 } },
    };
    const brain = await serve(this.#t, { data: this.data, config, env: { SEAT_KEY: KEY } });
    this.#brains.push(brain);
    return brain;
  }

  get gatewayPid(): number {
    return JSON.parse(readFileSync(join(this.data, 'gateway', 'address.json'), 'utf8')).process.pid;
  }

  /** Submits a job, and returns when a part of its answer is here: by then its id at the provider is durable. */
  async begin(url: string, id: string): Promise<void> {
    this.provider.stage.hold('before-end');
    const body = JSON.stringify({ job_id: id, model: 'm', prompt: id });
    const headers = { 'content-type': 'application/json' };
    assert.equal((await fetch(`${url}/v2/tasks`, { method: 'POST', headers, body })).status, 202);
    const events = await fetch(`${url}/v2/tasks/${id}/events`);
    let heard = '';
    for await (const piece of events.body ?? []) {
      heard += Buffer.from(piece).toString();
      if (/^event: token$/m.test(heard)) return;
    }
    assert.fail(`the stream has ended: ${heard}`);
  }

  async job(url: string, id: string): Promise<{ state: string; attempts: unknown[] }> {
    return (await fetch(`${url}/v2/tasks/${id}`)).json() as never;
  }

  async found(url: string, token: string): Promise<string[]> {
    const { reports } = (await (await fetch(`${url}/control/reconcile`)).json()) as Report;
    const attempts = reports.flatMap(({ backends }) => backends.flatMap((backend) => backend.attempts));
    return attempts.filter((attempt) => attempt.token === token).map(({ found }) => found);
  }

  /** Lets the provider answer, and checks that the job was bought once. */
  async succeeds(url: string, id: string): Promise<void> {
    this.provider.stage.release('before-end');
    await until(async () => (await this.job(url, id)).state === 'succeeded');
    assert.equal((await this.job(url, id)).attempts.length, 1);
    const bills = this.provider.ledger.bills.filter(({ prompt }) => prompt === id);
    assert.equal(bills.length, 1);
  }
}

test('the gateway of `orchd up` outlives a killed brain, is started again when it is killed, and no job is bought twice', {
  timeout: TEST_TIMEOUT_MS,
}, async (t) => {
  const site = new Site(t);
  await site.provider.start();
  const first = await site.up();
  const { gatewayPid } = site;
  assert.notEqual(gatewayPid, first.child.pid);
  await site.begin(first.url, 'adopted');
  await first.kill();

  const second = await site.up();
  assert.equal(site.gatewayPid, gatewayPid, 'the next brain uses the same process');
  await until(async () => (await site.found(second.url, 'adopted:1')).includes('reattached'));
  await site.succeeds(second.url, 'adopted');

  await site.begin(second.url, 'resumed');
  process.kill(gatewayPid, 'SIGKILL');
  await until(() => site.gatewayPid !== gatewayPid);
  await site.succeeds(second.url, 'resumed');

  await site.begin(second.url, 'both');
  process.kill(site.gatewayPid, 'SIGKILL');
  await second.kill();
  const third = await site.up();
  await site.succeeds(third.url, 'both');

  for (const name of readdirSync(join(site.data, 'gateway')))
    assert.ok(!readFileSync(join(site.data, 'gateway', name)).includes(KEY), `the key is in ${name}`);
});
