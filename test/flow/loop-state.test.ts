/** No request keeps the event loop busy for more than 50 ms, however many jobs and sessions the brain has. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SubmitRequest } from '../../src/model/submit.ts';
import { type HttpBrain, httpBrain } from '../fakes/http-brain.ts';
import { LoopClient } from '../fakes/loop-client.ts';
import { LoopClock, slowness } from '../fakes/loop-clock.ts';

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

/** Each kind of state is there twice: of two runs of a request the shorter one counts, see loop-fuzz.test.ts. */
async function fill(brain: HttpBrain): Promise<void> {
  for (const half of [1, 2]) {
    await submitMany(brain, (at) => ({ job_id: `s${half}-${at}`, session_id: `big-${half}`, type: 'work' }));
    await brain.orchestrator.submit({ job_id: `parent-${half}`, type: 'nobody-does' });
    await submitMany(brain, (at) => ({
      job_id: `c${half}-${at}`,
      parent_id: `parent-${half}`,
      type: 'nobody-does',
      labels: { lane: `l${at % 10_000}` },
      session_id: `small-${half}-${at}`,
    }));
  }
}

/** A request for each of the two runs; `N` stands for the half. */
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
  await fill(brain);
  const clock = new LoopClock();
  try {
    const factor = slowness();
    const turns = new Map<string, number>();
    for (const asked of REQUESTS) {
      const best: number[] = [];
      for (const half of ['1', '2']) {
        const [method = '', path = ''] = asked.replaceAll('N', half).split(' ');
        const body = BODIES[asked]?.replaceAll('N', half);
        await new Promise((resolve) => setImmediate(resolve));
        clock.takeLongest();
        const request = { port: brain.port, method, path, giveUpMs: 120_000, ...(body && { body }) };
        const { status } = await client.send(request);
        assert.ok(status >= 200 && status < 300, `${asked}: ${status}`);
        best.push(clock.takeLongest() / factor);
      }
      turns.set(asked, Math.round(Math.min(...best)));
    }
    t.diagnostic(`machine ${factor.toFixed(2)}, longest turns ${JSON.stringify(Object.fromEntries(turns))}`);
    assert.deepEqual(
      [...turns].filter(([, ms]) => ms > MAX_TURN_MS),
      [],
    );
    const { jobs } = await brain.orchestrator.list({ state: 'queued', limit: 10 });
    assert.deepEqual(jobs, [], 'all of them are cancelled');
  } finally {
    clock.stop();
    await client.stop();
    await brain.stop();
  }
});
