/** No question about usage keeps the event loop of the brain busy for more than 20 ms, however much was spent. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { OrchdClient } from '../../src/client/client.ts';
import { type HttpBrain, httpBrain } from '../fakes/http-brain.ts';
import { LoopClient } from '../fakes/loop-client.ts';
import { LoopClock } from '../fakes/loop-clock.ts';
import { fillLedger } from '../fakes/many-charges.ts';
import { tempFolder } from './flow-kit.ts';

const MAX_TURN_MS = 20;
/** bench/suites/usage.ts measures a million. */
const CHARGES = 60_000;

async function brainWithLedger(t: TestContext): Promise<HttpBrain & { readonly cost: number }> {
  const data = tempFolder(t);
  await (await httpBrain({ data })).stop();
  const { cost } = fillLedger(data, CHARGES, Date.now());
  const brain = await httpBrain({ data });
  t.after(() => brain.stop());
  return { ...brain, cost };
}

test('no sum and no ledger keeps the loop busy for more than 20 ms', { timeout: 240_000 }, async (t) => {
  const brain = await brainWithLedger(t);
  const client = new LoopClient();
  t.after(() => client.stop());
  const clock = new LoopClock();
  t.after(() => clock.stop());
  const since = new Date(Date.now() - 31 * 86_400_000).toISOString();
  const { total } = await new OrchdClient({ url: brain.url }).usage({ from: since });
  assert.deepEqual([total.attempts, total.cost], [CHARGES, brain.cost]);
  for (const path of [
    `/v2/usage?from=${since}&by=session`,
    `/v2/usage?from=${since}&by=session&format=csv`,
    `/v2/usage?from=${since}&by=principal,model,tag:team`,
    `/v2/usage?from=${since}&by=day,principal`,
    `/v2/usage/ledger?from=${since}`,
  ]) {
    const { longestMs, said } = await clock.best(MAX_TURN_MS, async () => {
      const { status } = await client.send({ port: brain.port, method: 'GET', path, giveUpMs: 60_000 });
      assert.equal(status, 200, path);
    });
    t.diagnostic(`${said} ${path}`);
    assert.ok(longestMs <= MAX_TURN_MS, `${path}: ${said}`);
  }
});
