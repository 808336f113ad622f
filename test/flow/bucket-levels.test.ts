/** What callers have used of their rates survives a restart, and lies in the database where there is one. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { connector } from '../../src/stores/mariadb/sql.ts';
import { type HttpBrain, httpBrain } from '../fakes/http-brain.ts';
import { isDatabase, LASTING, onStores, placed } from './flow-kit.ts';

/** So slow that nothing comes back while the test runs. */
const CONFIG = `
limits:
  - {scope: "agent:*", requests_per_sec: 0.000001, burst_requests: 3}
  - {scope: "tenant:default", tokens_per_sec: 0.000001, burst_tokens: 100}
`;

async function open(t: TestContext, data: string): Promise<HttpBrain> {
  const brain = await httpBrain({ ...placed({ data, config: CONFIG }), backends: [] });
  t.after(() => brain.stop());
  return brain;
}

async function submit({ url }: HttpBrain, agent: string, tokens: number): Promise<unknown> {
  const answer = await fetch(`${url}/v2/tasks`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      type: 'inference',
      agent,
      payload: { prompt: 'x', max_tokens: tokens },
      wait_for_backend: true,
    }),
  });
  const body = (await answer.json()) as { policy_label?: string };
  return answer.status === 202 ? 202 : [answer.status, body.policy_label];
}

async function keptLevels(address: string): Promise<Record<string, Record<string, number>>> {
  const sql = await connector(address)();
  try {
    const rows = await sql.query<{ id: string; record: string }>(
      "SELECT id, record FROM orchestrator_records WHERE kind = 'spent'",
    );
    return Object.fromEntries(rows.map(({ id, record }) => [id, JSON.parse(record)]));
  } finally {
    await sql.close();
  }
}

onStores('what is left of a rate and its burst is the same after a restart', LASTING, async (t, data) => {
  const first = await open(t, data);
  assert.deepEqual([await submit(first, 'ann', 10), await submit(first, 'ann', 10)], [202, 202]);
  if (isDatabase(data)) {
    const levels = await keptLevels(data);
    assert.equal(Math.floor(levels['agent:default/ann']?.['requestLevel'] ?? -1), 1);
    const left = levels['tenant:default']?.['tokenLevel'] ?? -1;
    assert.ok(left > 0 && left <= 80, `${left} tokens are left`);
  }
  await first.stop();
  const second = await open(t, data);
  assert.equal(await submit(second, 'ann', 10), 202);
  const refused = (await submit(second, 'ann', 10)) as unknown[];
  assert.equal(refused[0], 429);
  assert.match(String(refused[1]), /agent/);
  assert.equal(await submit(second, 'bob', 10), 202, 'another agent has its own');
  const late = (await submit(second, 'eve', 70)) as unknown[];
  assert.equal(late[0], 429);
  assert.match(String(late[1]), /tenant/);
});
