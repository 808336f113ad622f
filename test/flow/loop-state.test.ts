/** No request keeps the event loop busy for more than 50 ms, however many jobs and sessions the brain has. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SubmitRequest } from '../../src/model/submit.ts';
import { type HttpBrain, httpBrain } from '../fakes/http-brain.ts';
import { LoopClient } from '../fakes/loop-client.ts';
import { LoopClock } from '../fakes/loop-clock.ts';

const MAX_TURN_MS = 50;
const JOBS = Number(process.env['LOOP_JOBS'] ?? 20_000);
const BULK = 1000;

async function submitMany(
  { orchestrator }: HttpBrain,
  request: (at: number) => SubmitRequest,
): Promise<void> {
  for (let start = 0; start < JOBS; start += BULK) {
    const requests = Array.from({ length: BULK }, (_, at) => request(start + at));
    const answers = await orchestrator.submitMany(requests);
    assert.ok(answers.every((answer) => !(answer instanceof Error)));
  }
}

/** Jobs of every kind. Each run of a request has some of its own, since some requests cancel them. */
async function fill(brain: HttpBrain, part: number): Promise<void> {
  await submitMany(brain, (at) => ({ job_id: `s${part}-${at}`, session_id: `big-${part}`, type: 'work' }));
  await brain.orchestrator.submit({ job_id: `parent-${part}`, type: 'nobody-does' });
  await submitMany(brain, (at) => ({
    job_id: `c${part}-${at}`,
    parent_id: `parent-${part}`,
    type: 'nobody-does',
    labels: { lane: `l${at % 10_000}` },
    session_id: `small-${part}-${at}`,
  }));
}

/** `N` stands for the part. */
const REQUESTS = [
  'POST /v2/tasks',
  'POST /v2/tasks (1,000 jobs)',
  'POST /v2/tasks (1,000 new lanes)',
  'GET /v2/tasks?limit=1000',
  'GET /v2/tasks?state=dead',
  'GET /v2/tasks?type=nothing',
  'GET /v2/tasks?session_id=nothing',
  'GET /v2/tasks?agent=nobody&limit=1000',
  'GET /v2/tasks?key=none',
  'GET /v2/tasks/sN-19999',
  'GET /v2/tasks/cN-19999',
  'GET /v2/sessions/big-N',
  'PUT /v2/sessions/big-N',
  'GET /metrics',
  'GET /openapi.json',
  'GET /v2/meta/capabilities',
  'GET /v2/limits',
  'POST /v2/tasks/parent-N/cancel',
  'DELETE /v2/sessions/big-N',
];

const BODIES: Readonly<Record<string, string>> = {
  'POST /v2/tasks': '{"type":"work","session_id":"big-N"}',
  'POST /v2/tasks (1,000 jobs)': JSON.stringify(
    Array.from({ length: 1000 }, () => ({ type: 'work', session_id: 'big-N', prompt: 'x' })),
  ),
  'POST /v2/tasks (1,000 new lanes)': JSON.stringify(
    Array.from({ length: 1000 }, (_, at) => ({
      type: 'nobody-does',
      wait_for_backend: true,
      parent_id: 'parent-N',
      labels: { lane: `new-N-${at}` },
    })),
  ),
  'PUT /v2/sessions/big-N': '{"token_budget":1000000000}',
};

test('no request keeps the loop of a brain with many jobs busy for more than 50 ms', {
  timeout: 600_000,
}, async (t) => {
  const never = (): Promise<never> => new Promise(() => undefined);
  const brain = await httpBrain({
    config: 'orchestrator: { queue_capacity: 1000000 }',
    backends: [{ name: 'b', slots: 1, types: { work: never } }],
  });
  const client = new LoopClient();
  let parts = 0;
  const haveParts = async (wanted: number): Promise<void> => {
    while (parts < wanted) await fill(brain, parts++);
  };
  await haveParts(2);
  const clock = new LoopClock();
  try {
    for (const asked of REQUESTS) {
      const send = async (part: number): Promise<void> => {
        const [method = '', path = ''] = asked.replaceAll('N', String(part)).split(' ');
        const body = BODIES[asked]?.replaceAll('N', String(part));
        const request = { port: brain.port, method, path, giveUpMs: 120_000, ...(body && { body }) };
        const { status } = await client.send(request);
        assert.ok(status >= 200 && status < 300, `${asked}: ${status}`);
      };
      const prepare = (part: number): Promise<void> => haveParts(part + 1);
      const { longestMs, said } = await clock.best(MAX_TURN_MS, send, prepare);
      t.diagnostic(`${asked}: ${said}`);
      assert.ok(longestMs <= MAX_TURN_MS, `${asked}: ${said}`);
    }
    for (const id of ['s0-1', 's0-19999', 'c0-0', 'c0-19999'])
      assert.equal((await brain.orchestrator.get(id)).state, 'cancelled', id);
  } finally {
    clock.stop();
    await client.stop();
    await brain.stop();
  }
});
