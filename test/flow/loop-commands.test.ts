/** No job of a command keeps the event loop of the brain busy for more than 50 ms, however large its payload is. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CommandKit, sh } from '../fakes/command-kit.ts';
import type { HostileName } from '../fakes/hostile-json.ts';
import { httpBrain } from '../fakes/http-brain.ts';
import { LoopClient } from '../fakes/loop-client.ts';
import { LoopClock } from '../fakes/loop-clock.ts';
import { tempFolder } from './flow-kit.ts';

const MAX_TURN_MS = 50;
const PAYLOADS: readonly HostileName[] = ['a text of 8 million line ends', 'a name of 16 MB'];

test('no payload keeps the loop busy for more than 50 ms while its command is started', {
  timeout: 120_000,
}, async (t) => {
  const backend = new CommandKit(t).backend(sh('wc -c'));
  const brain = await httpBrain({ data: tempFolder(t), backends: [backend] });
  t.after(() => brain.stop());
  const client = new LoopClient();
  t.after(() => client.stop());
  const clock = new LoopClock();
  t.after(() => clock.stop());
  for (const name of PAYLOADS) {
    const { longestMs, said } = await clock.best(MAX_TURN_MS, async (run) => {
      const job_id = `${PAYLOADS.indexOf(name)}-${run}`;
      const body = { name, field: 'payload', rest: { job_id, type: 'work' } };
      const { status, text } = await client.send({
        port: brain.port,
        method: 'POST',
        path: '/v2/tasks',
        body,
        giveUpMs: 60_000,
      });
      assert.equal(status, 202, text);
      let last: string | undefined;
      for await (const { type } of brain.orchestrator.events(job_id)) last = type;
      assert.equal(last, 'end');
    });
    t.diagnostic(`${name}: ${said}`);
    assert.ok(longestMs <= MAX_TURN_MS, `${name}: ${said}`);
  }
});
