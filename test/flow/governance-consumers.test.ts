/** Work that waits to be claimed by a consumer, when the mode or the rules forbid it: over HTTP, on stores that last. */
import assert from 'node:assert/strict';
import { describe, type TestContext } from 'node:test';
import { type HttpBrain, httpBrain } from '../fakes/http-brain.ts';
import { LASTING, onStores, placed } from './flow-kit.ts';

interface Job {
  readonly state: string;
  readonly waiting?: { readonly code: string; readonly text: string };
  readonly error?: { readonly code: string; readonly message: string };
}

const RULES = `governance:
  rules: [{name: no-dear, effect: deny, types: [dear], reason: "too dear"}]
`;

class Site {
  readonly brain: HttpBrain;

  constructor(brain: HttpBrain) {
    this.brain = brain;
  }

  static async open(t: TestContext, data: string, config = ''): Promise<Site> {
    const brain = await httpBrain(placed({ data, config }));
    t.after(() => brain.stop());
    return new Site(brain);
  }

  async call<T>(method: string, path: string, body?: object): Promise<T> {
    const answer = await fetch(this.brain.url + path, {
      method,
      headers: { 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    });
    assert.ok(answer.ok, `${method} ${path} ${answer.status}`);
    return (await answer.json()) as T;
  }

  job = (id: string): Promise<Job> => this.call('GET', `/v2/tasks/${id}`);

  submit = (id: string, type: string): Promise<unknown> =>
    this.call('POST', '/v2/tasks', { job_id: id, type, payload: {}, wait_for_backend: true });

  setMode = (mode: string): Promise<unknown> =>
    this.call('PUT', '/v2/governance/mode', { mode, why: 'smoke' });

  async register(): Promise<string> {
    const asked = { pool: 'p', name: 'c', slots: 3, types: ['plain', 'dear'] };
    return (await this.call<{ consumer_id: string }>('POST', '/v2/consumers', asked)).consumer_id;
  }

  async claim(consumer: string, claim: number): Promise<string[]> {
    const path = `/v2/consumers/${consumer}/claim`;
    const { jobs } = await this.call<{ jobs: { job_id: string }[] }>('POST', path, { claim, max: 9 });
    return jobs.map(({ job_id: id }) => id);
  }
}

describe('[ADR-7] work that no consumer has claimed', () => {
  onStores(
    'waits with the reason in LOCKDOWN, over a restart too, and is claimed afterwards',
    LASTING,
    async (t, data) => {
      const before = await Site.open(t, data);
      const consumer = await before.register();
      for (const id of ['held', 'free']) await before.submit(id, 'plain');
      const [held] = await before.claim(consumer, 1);
      assert.equal(held, 'held');
      await before.submit('late', 'plain');
      await before.setMode('LOCKDOWN');
      await before.brain.stop();
      const site = await Site.open(t, data);
      assert.deepEqual(await site.claim(consumer, 2), []);
      assert.equal((await site.job('late')).state, 'queued');
      assert.match((await site.job('late')).waiting?.text ?? '', /the mode is LOCKDOWN since .*: smoke/);
      await site.setMode('RECOVERY');
      assert.deepEqual(await site.claim(consumer, 3), ['late']);
    },
  );

  onStores(
    'is denied with the rule by a brain whose rules forbid it, and the rest is claimed',
    LASTING,
    async (t, data) => {
      const before = await Site.open(t, data);
      const consumer = await before.register();
      for (const id of ['plain', 'dear']) await before.submit(id, id);
      for (const id of ['plain', 'dear']) assert.equal((await before.job(id)).state, 'claimed');
      await before.brain.stop();
      const site = await Site.open(t, data, RULES);
      const { state, error } = await site.job('dear');
      assert.deepEqual([state, error?.code], ['dead', 'GOVERNANCE_DENIED']);
      assert.match(error?.message ?? '', /"no-dear" forbids it: too dear/);
      assert.deepEqual(await site.claim(consumer, 1), ['plain']);
      const { violations } = await site.call<{ violations: number }>('GET', '/v2/governance');
      assert.equal(violations, 1);
    },
  );
});
