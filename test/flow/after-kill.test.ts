/** A diamond of jobs over kills of the brain, with a failure in its middle and redrives; real processes, both stores. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, type TestContext, test } from 'node:test';
import { type TestServer, testMariaDb } from '../fakes/mariadb.ts';
import { until } from './cli-process.ts';
import { type ServerProcess, serve, testFolder } from './server-process.ts';

/** Notes its job, waits while it is held, and fails where it is told to. */
const WORK =
  'echo "$JOB_ID" >> "$0/ledger"; while [ -e "$0/hold-$JOB_ID" ]; do sleep 0.02; done; test ! -e "$0/fail-$JOB_ID"';

let database: Promise<TestServer> | undefined;
after(async () => (await database)?.stop());

const STORES: Readonly<Record<string, () => Promise<object>>> = {
  journal: async () => ({}),
  mariadb: async () => {
    database ??= testMariaDb();
    return { store: 'mariadb', mariadb: { url: await (await database).database() } };
  },
};

class Diamond {
  readonly #t: TestContext;
  readonly #config: object;
  readonly #folder: string;
  #server!: ServerProcess;

  constructor(t: TestContext, config: object) {
    this.#t = t;
    this.#folder = testFolder(t);
    const work = { argv: ['/bin/sh', '-c', WORK, this.#folder] };
    this.#config = {
      ...config,
      orchestrator: { recovery: { sweep_interval_ms: 100, holder_lost_ms: 1000 }, retry: { max_tries: 1 } },
      backends: { demo: false, commands: [{ name: 'sh', slots: 4, types: { work } }] },
    };
  }

  async start(): Promise<void> {
    this.#server = await serve(this.#t, { data: join(this.#folder, 'data'), config: this.#config });
  }

  async killAndStart(): Promise<void> {
    await this.#server.kill();
    await this.start();
  }

  async post(path: string, body: unknown): Promise<number> {
    const response = await fetch(this.#server.url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    await response.text();
    return response.status;
  }

  async is(id: string, ...states: string[]): Promise<{ state: string; reason?: string }> {
    let job: { state: string; reason?: string } = { state: '' };
    await until(async () => {
      job = (await (await fetch(`${this.#server.url}/v2/tasks/${id}`)).json()) as typeof job;
      return states.includes(job.state);
    });
    return job;
  }

  mark(name: string): void {
    writeFileSync(join(this.#folder, name), '');
  }

  unmark(name: string): void {
    rmSync(join(this.#folder, name), { force: true });
  }

  get ledger(): string[] {
    const file = join(this.#folder, 'ledger');
    return existsSync(file) ? readFileSync(file, 'utf8').split('\n').slice(0, -1) : [];
  }
}

const JOBS = [
  { job_id: 'top', type: 'work' },
  { job_id: 'left', type: 'work', after: ['top'] },
  { job_id: 'right', type: 'work', after: ['top'] },
  { job_id: 'bottom', type: 'work', after: ['left', 'right'] },
];

for (const [store, config] of Object.entries(STORES)) {
  test(`a diamond over kills of the brain, a failure in its middle, and redrives (${store})`, {
    timeout: 180_000,
  }, async (t) => {
    const diamond = new Diamond(t, await config());
    for (const name of ['hold-top', 'hold-left', 'hold-right', 'fail-left']) diamond.mark(name);
    await diamond.start();
    assert.equal(await diamond.post('/v2/tasks', JOBS), 200);
    await until(() => diamond.ledger.length === 1);
    await diamond.killAndStart();
    diamond.unmark('hold-top');
    await until(() => diamond.ledger.length === 3);
    await diamond.killAndStart();
    diamond.unmark('hold-left');
    await diamond.is('left', 'dead');
    const bottom = await diamond.is('bottom', 'dead', 'succeeded');
    assert.deepEqual([bottom.state, bottom.reason], ['dead', 'dependency']);
    await diamond.killAndStart();
    assert.equal(await diamond.post('/v2/tasks/bottom/redrive', {}), 409, 'left is still dead');
    diamond.unmark('fail-left');
    assert.equal(await diamond.post('/v2/tasks/left/redrive', {}), 202);
    assert.equal(await diamond.post('/v2/tasks/bottom/redrive', {}), 202);
    await diamond.is('left', 'succeeded');
    assert.equal((await diamond.is('bottom', 'queued', 'running')).state, 'queued', 'right still runs');
    await diamond.killAndStart();
    diamond.unmark('hold-right');
    await diamond.is('bottom', 'succeeded');
    assert.deepEqual(diamond.ledger.toSorted(), ['bottom', 'left', 'left', 'right', 'top']);
  });
}
