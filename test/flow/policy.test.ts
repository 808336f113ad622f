/** The policy that operators set at run time, over HTTP, on stores that last. */
import assert from 'node:assert/strict';
import { describe, type TestContext } from 'node:test';
import { type HttpBrain, httpBrain } from '../fakes/http-brain.ts';
import { LASTING, onStores, placed } from './flow-kit.ts';

const CONFIG = `
gates:
  agent_waiting: {high: 5, low: 4}
pools:
  idle_unload_sec: 50
limits:
  - {scope: "agent:*", running: 7}
`;

interface Policy {
  readonly set: object;
  readonly by: string;
  readonly why: string;
  readonly in_force: { readonly gates: object; readonly idle_unload_sec: number };
  readonly limits: readonly object[];
  readonly before?: { readonly why: string };
  readonly preview?: { readonly closes_queue: boolean; readonly agents: readonly string[] };
}

class Site {
  brain!: HttpBrain;

  async open(t: TestContext, data: string): Promise<void> {
    this.brain = await httpBrain({ ...placed({ data, config: CONFIG }), backends: [] });
    t.after(() => this.brain.stop());
  }

  async call<T>(method: string, path: string, body?: object): Promise<{ status: number; body: T }> {
    const answer = await fetch(`${this.brain.url}${path}`, {
      method,
      ...(body && { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
    });
    return { status: answer.status, body: (await answer.json()) as T };
  }

  async policy(): Promise<Policy> {
    return (await this.call<Policy>('GET', '/control/policy')).body;
  }

  async submit(agent: string): Promise<unknown> {
    const body = { type: 't', payload: {}, agent, wait_for_backend: true };
    const answer = await this.call<{ error?: { reason?: string }; policy_label?: string }>(
      'POST',
      '/v2/tasks',
      body,
    );
    return answer.status === 429 ? [answer.body.error?.reason, answer.body.policy_label] : answer.status;
  }
}

const STRICT = {
  gates: { agent_waiting: { high: 2, low: 1 } },
  idle_unload_sec: 20,
  limits: [{ scope: 'global', running: 9 }],
  why: 'a flood',
};

describe('the policy', () => {
  onStores(
    '[NEWS-8] is in force at once, survives a restart with who and why, and one call undoes it',
    LASTING,
    async (t, data) => {
      const site = new Site();
      await site.open(t, data);
      const configured = await site.policy();
      assert.deepEqual([configured.set, configured.by], [{}, 'start']);
      assert.deepEqual(configured.in_force.gates, { agent_waiting: { high: 5, low: 4 } });
      assert.equal((await site.call('PUT', '/control/policy', STRICT)).status, 200);
      await site.brain.stop();
      await site.open(t, data);
      const kept = await site.policy();
      assert.deepEqual(kept.in_force.gates, { agent_waiting: { high: 2, low: 1 } });
      assert.deepEqual(
        [kept.in_force.idle_unload_sec, kept.limits, kept.by, kept.why],
        [20, STRICT.limits, 'local', 'a flood'],
      );
      assert.deepEqual([await site.submit('ann'), await site.submit('ann')], [202, 202]);
      assert.deepEqual(await site.submit('ann'), ['agent_waiting', 'gates.agent_waiting']);
      const undone = await site.call<Policy>('POST', '/control/policy/undo', { why: 'over' });
      assert.deepEqual([undone.body.set, undone.body.limits], [{}, configured.limits]);
      assert.deepEqual(undone.body.in_force, configured.in_force);
      assert.deepEqual(
        [undone.body.by, undone.body.why, undone.body.before?.why],
        ['local', 'over', 'a flood'],
      );
      assert.equal(await site.submit('ann'), 202);
    },
  );

  onStores('[NEWS-8] a dry run says whom it would hit now, and changes nothing', LASTING, async (t, data) => {
    const site = new Site();
    await site.open(t, data);
    for (const agent of ['ann', 'ann', 'bob']) await site.submit(agent);
    const wished = { gates: { ...STRICT.gates, queue_depth: { close_above: 2 } }, why: 'a test' };
    const { body } = await site.call<Policy>('PUT', '/control/policy?dry_run=true', wished);
    assert.deepEqual([body.preview?.closes_queue, body.preview?.agents], [true, ['ann']]);
    assert.deepEqual((await site.policy()).set, {});
  });

  onStores(
    '[NEWS-8] that contradicts itself or would stop everything is refused',
    LASTING,
    async (t, data) => {
      const site = new Site();
      await site.open(t, data);
      const fieldOf = async (body: object): Promise<unknown> => {
        const answer = await site.call<{ error: { field?: string } }>('PUT', '/control/policy', body);
        return [answer.status, answer.body.error?.field];
      };
      const gates = { queue_depth: { close_above: 2, open_below: 3 } };
      assert.deepEqual(await fieldOf({ gates, why: 'x' }), [400, 'gates.queue_depth.open_below']);
      const limits = [{ scope: 'global', running: 0 }];
      assert.deepEqual(await fieldOf({ limits, why: 'x' }), [400, 'force']);
      const everyone = [{ scope: 'agent:*', running: 0 }];
      assert.deepEqual(await fieldOf({ limits: everyone, why: 'x' }), [400, 'force']);
      const twice = [{ scope: 'global', running: 1 }, ...limits];
      assert.deepEqual(await fieldOf({ limits: twice, force: true, why: 'x' }), [400, 'scope']);
      assert.deepEqual((await site.policy()).by, 'start');
      assert.deepEqual(await fieldOf({ limits, force: true, why: 'x' }), [200, undefined]);
      const undo = await site.call('POST', '/control/policy/undo', { why: 'y' });
      assert.equal(undo.status, 200);
    },
  );

  onStores('[NEWS-8] leaves the gates that it does not name as configured', LASTING, async (t, data) => {
    const site = new Site();
    await site.open(t, data);
    const put = async (gates: object): Promise<unknown[]> => {
      const { body } = await site.call<Policy>('PUT', '/control/policy', { gates, why: 'x' });
      return [body.set, body.in_force.gates];
    };
    const configured = { agent_waiting: { high: 5, low: 4 } };
    const depth = { queue_depth: { close_above: 10, on_depth: 'reject' } };
    assert.deepEqual(await put(depth), [
      { gates: depth },
      { queue_depth: { close_above: 10, open_below: 8, on_depth: 'reject' }, ...configured },
    ]);
    assert.deepEqual((await put({}))[1], configured);
    assert.deepEqual((await put({ agent_waiting: { high: 0 } }))[1], {});
    await site.brain.stop();
    await site.open(t, data);
    assert.deepEqual((await site.policy()).in_force.gates, {});
  });

  onStores('an undo does not overwrite limits that were set since', LASTING, async (t, data) => {
    const site = new Site();
    await site.open(t, data);
    const undo = (): Promise<{ status: number }> => site.call('POST', '/control/policy/undo', { why: 'y' });
    assert.equal((await undo()).status, 409, 'nobody has set anything');
    await site.call('PUT', '/control/policy', STRICT);
    await site.call('PUT', '/v2/limits', { limits: [] });
    assert.equal((await undo()).status, 409);
    assert.deepEqual((await site.policy()).limits, []);
  });
});
