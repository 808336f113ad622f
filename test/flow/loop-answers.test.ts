/** No answer of a worker keeps the event loop of the brain busy for more than 50 ms, however large it is. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { WorkerBackend } from '../../src/backends/pool/worker-backend.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { Outbound } from '../../src/wire/outbound.ts';
import { httpBrain } from '../fakes/http-brain.ts';
import { largeAnswers } from '../fakes/large-answers.ts';
import { LoopClient } from '../fakes/loop-client.ts';
import { LoopClock, slowness } from '../fakes/loop-clock.ts';
import { tempFolder } from './flow-kit.ts';

const MAX_TURN_MS = 50;
/** 20 MB of JSON, with a million numbers. */
const EMBEDDINGS = 1000;

test('no result of a worker keeps the loop busy for more than 50 ms', { timeout: 120_000 }, async (t) => {
  const { url, stop } = await largeAnswers();
  t.after(stop);
  const { timers } = realEnv();
  const backend = new WorkerBackend({
    info: {
      name: 'box/w1',
      kind: 'worker',
      slots: 1,
      types: ['inference'],
      models: [],
      labels: {},
      paid: false,
      keepsResults: true,
      registry: 'r1',
    },
    target: new Outbound({ timers }).to(url),
    secret: undefined,
    timers,
  });
  const brain = await httpBrain({ data: tempFolder(t), backends: [backend] });
  t.after(() => brain.stop());
  const client = new LoopClient();
  t.after(() => client.stop());
  const clock = new LoopClock();
  t.after(() => clock.stop());
  const factor = slowness();
  const runs: number[] = [];
  for (let run = 0; run < 3; run++) {
    const { job_id } = await brain.orchestrator.submit({
      type: 'inference',
      payload: { embeddings: EMBEDDINGS },
    });
    clock.takeLongest();
    const request = { port: brain.port, method: 'GET', path: `/v2/tasks/${job_id}/events`, giveUpMs: 60_000 };
    const { text } = await client.send(request);
    runs.push(Math.round(clock.takeLongest() / factor));
    assert.match(text, /^event: end$/m);
  }
  t.diagnostic(`machine ${factor.toFixed(2)}: ${runs.join(', ')} ms`);
  assert.ok(Math.min(...runs) <= MAX_TURN_MS, `${runs.join(', ')} ms`);
});
