/** Work that an earlier orchd left in its store goes on: attempts are settled, waits end, orders are obeyed. */
import type { Backend, Inspection, Offer, OfferReply } from '../../src/core/ports/backend.ts';
import assert from 'node:assert/strict';
import { answers, type Behaviour, RUNS, ScriptedExecutor } from './maker/executor.ts';
import { LONG_TEXT } from './v2-contents.ts';
import { LATER, NOW, onBothStores, open, START, WORKERS } from './v2-kit.ts';

/** Answers of the executors about the attempts that were open; they know nothing of `stale:1`. */
const BEHAVIOURS: Readonly<Record<string, Behaviour>> = {
  'running:1': { ...answers({ says: 'it ran on' }), isKnown: true },
  'session-head:1': { ...answers({ says: 'head' }), isKnown: true },
  'desk-running:1': { ...answers(3), isKnown: true },
  'parent:1': RUNS,
  'redriven-running:2': RUNS,
  'chat-running:1': RUNS,
  'cancelling:1': RUNS,
  'cancelled-open:1': RUNS,
  'overtime:1': RUNS,
  // The offer never arrived.
  'claimed:1': { offer: () => Promise.reject(new Error('no second offer of the same attempt')) },
};

/** Executors that note what they are asked about and what they are offered. */
class Witness {
  readonly asked = new Set<string>();
  readonly offers = new Map<string, Offer & { readonly to: string }>();

  readonly executorOf = (info: Backend['info']): Backend => {
    const { asked, offers } = this;
    return new (class extends ScriptedExecutor {
      override offer(offer: Offer): Promise<OfferReply> {
        offers.set(offer.token, { ...offer, to: info.name });
        return super.offer(offer);
      }

      override inspect(tokens: readonly string[]): Promise<Inspection> {
        for (const token of tokens) asked.add(token);
        return super.inspect(tokens);
      }
    })(info, BEHAVIOURS);
  };
}

const outcomes = (job: { attempts: readonly { outcome?: string; state: string }[] }): string[] =>
  job.attempts.map(({ outcome, state }) => outcome ?? state);

onBothStores('version 2: attempts that were open are asked about and settled', async (t, place) => {
  const witness = new Witness();
  const { brain } = await open(t, place, witness);
  assert.deepEqual((await brain.wait('running')).result, { says: 'it ran on' });
  assert.deepEqual((await brain.wait('desk-running')).result, 3);
  const claimed = await brain.wait('claimed');
  assert.deepEqual(
    [claimed.result, outcomes(claimed)],
    [{ says: 'claimed', try: 2 }, ['abandoned', 'succeeded']],
  );
  assert.equal((await brain.wait('cancelling')).state, 'cancelled');
  assert.deepEqual((await brain.wait('in-session')).result, { says: 'in-session', try: 1 });
  for (const token of ['running:1', 'claimed:1', 'stale:1', 'parent:1', 'chat-running:1'])
    assert.ok(witness.asked.has(token), token);
  assert.ok(!witness.offers.has('claimed:1'), 'what may have run is never offered again');
  assert.equal(witness.offers.get('claimed:2')?.payloadText, '{"ask":"claimed"}');
  const stale = await brain.resolve('stale', { as: 'succeeded', result: 'seen' }, 'anna');
  assert.deepEqual([stale.state, stale.result, outcomes(stale)], ['succeeded', 'seen', ['abandoned']]);
});

onBothStores('version 2: dead jobs live again, with their attempts counted on', async (t, place) => {
  const witness = new Witness();
  const { brain } = await open(t, place, witness);
  await brain.redrive('exhausted', 'anna');
  const exhausted = await brain.wait('exhausted');
  assert.deepEqual([exhausted.tries, outcomes(exhausted)], [0, ['failed', 'failed', 'succeeded']]);
  await brain.redrive('poisoned', 'anna');
  assert.deepEqual((await brain.wait('poisoned')).result, { says: 'poisoned', try: 2 });
  assert.equal((await brain.redrive('dropped', 'anna')).state, 'queued');
  await assert.rejects(brain.redrive('done'), { code: 'ILLEGAL_STATE' });
});

onBothStores('version 2: waits end, and what was submitted reaches the executors whole', async (t, place) => {
  const witness = new Witness();
  const clock = { now: NOW };
  const { brain } = await open(t, place, { ...witness, clock });
  await brain.wait('running');
  clock.now = LATER + 60_000;
  assert.deepEqual((await brain.wait('waiting')).result, { says: 'waiting', try: 1 });
  assert.deepEqual(JSON.parse(witness.offers.get('waiting:1')?.payloadText ?? ''), { text: LONG_TEXT });
  assert.deepEqual((await brain.wait('backing-off')).result, { says: 'backing-off', try: 2 });
  assert.deepEqual((await brain.wait('waiting', 'acme')).result, { says: 'acme~waiting', try: 1 });
  await brain.wait('every-field');
  const offer = witness.offers.get('every-field:1');
  assert.equal(offer?.to, `north/${WORKERS.running}`);
  const text = '{"prompt":"Say \\"every field\\"","max_tokens":6000,"temperature":0.5,"seed":7}';
  assert.equal(offer.payloadText, text);
  assert.deepEqual(JSON.parse(JSON.stringify(offer.ask)), { ...EVERY_FIELD, payload: text });
});

onBothStores('version 2: what was learned of the demand for a model is used', async (t, place) => {
  const { brain, pools } = await open(t, place, { died: WORKERS.running });
  // Beside the three orders that are given again: a worker for the job that waits, and one for those to come.
  await pools.ordered(5);
  const { workers } = await brain.reads.pool('north');
  assert.deepEqual(workers, []);
  assert.deepEqual(
    [...new Set(pools.starts.map(({ modelRef, device }) => `${modelRef} on ${device}`))].sort(),
    ['file:/models/chat.gguf on 1', 'file:/models/coder.gguf on 0', 'file:/models/embed.gguf on 1'],
  );
});

onBothStores('version 2: the deadline of a redriven job counts from its redrive', async (t, place) => {
  const clock = { now: NOW };
  const { brain } = await open(t, place, { ...new Witness(), clock });
  const deadlineMs = 7_200_000;
  clock.now = START + 1540 + deadlineMs + 2000;
  await brain.wait('backing-off');
  clock.now = START + 13_600 + deadlineMs;
  const { reason, ended_at } = await brain.wait('redriven-running');
  assert.deepEqual([reason, ended_at], ['expired', clock.now]);
});

onBothStores(
  'version 2: a pool that was to be reloaded gets its model when there is room',
  async (t, place) => {
    const { brain, pools } = await open(t, place);
    await brain.cancel('code-1');
    const given = pools.starts.length;
    pools.hide('west', WORKERS.stopping);
    await pools.started('file:/models/coder.gguf');
    assert.deepEqual(
      pools.starts.slice(given).flatMap(({ pool, modelRef }) => (pool === 'west' ? [modelRef] : [])),
      ['file:/models/coder.gguf'],
    );
  },
);

onBothStores('version 2: a pool manager that has forgotten its workers ends nothing', async (t, place) => {
  const { brain, pools } = await open(t, place);
  pools.forgets('south');
  // Heard after the report of the pool.
  await brain.cancel('code-1');
  const { state, attempts } = await brain.get('chat-running');
  assert.deepEqual([state, attempts[0]?.state], ['running', 'accepted']);
  assert.deepEqual((await brain.reads.pool('south')).workers, []);
});

onBothStores('version 2: a cancel takes along all jobs below', async (t, place) => {
  const { brain } = await open(t, place, new Witness());
  await brain.cancel('parent', 'anna');
  for (const id of ['parent', 'child', 'every-field'])
    assert.equal((await brain.wait(id)).state, 'cancelled');
});

/** Every field that version 2 began with; one that was added since is absent. */
const EVERY_FIELD = {
  v: 2,
  id: 'every-field',
  tenant: 'default',
  n: 361,
  createdAt: START + 23_760,
  submittedBy: 'ci',
  spec: {
    key: 'every key',
    agent: 'anna',
    session_id: 'work',
    parallel: true,
    type: 'inference',
    backend: 'worker',
    model: 'chat',
    region: 'eu',
    labels: { tier: 'gold' },
    priority: 'interactive',
    score: 2.5,
    weight: 3,
    not_before: LATER,
    deadline_ms: 7_200_000,
    timeout_ms: 60_000,
    max_tries: 5,
    parent_id: 'child',
    on_disconnect: 'continue',
    after_output: 'retry',
    on_unknown: 'retry',
  },
  payload: '',
  payloadBytes: 77,
  modelRef: 'file:/models/chat.gguf',
  contextTokens: 8192,
  tokens: 6005,
  ancestors: ['parent', 'child'],
  hash: '388c623a5fd7c7c52d720e2202ba440260400f38c5a540175f75c0924e4c7015',
  correlationId: 'trace-1',
};
