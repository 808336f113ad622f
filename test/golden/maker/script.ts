/** The workload whose store becomes golden data: two runs of a brain, the same on every store. */
import type { Orchestrator, SubmitRequest } from '../../../src/index.ts';
import type { Caller } from '../../../src/runtime/prepare.ts';
import { LONG_TEXT } from './behaviours.ts';
import type { ScriptedPools } from './pools.ts';
import { START, type StillWorld } from './still-world.ts';

const HOUR_MS = 3_600_000;
const LATER = START + HOUR_MS;
/** Characters that texts of SQL and JSON must escape. */
const PLAIN_TEXT = 'plain \u{1f98a} \n "quoted" \'too\' \\ ;';

export interface Stage {
  readonly world: StillWorld;
  readonly brain: Orchestrator;
  readonly pools: ScriptedPools;
}

export async function submit(
  { brain, world }: Stage,
  requests: Readonly<Record<string, SubmitRequest>>,
  caller?: Caller,
) {
  const all = Object.entries(requests).map(([job_id, request]) => {
    const hasBody = request.payload !== undefined || request.prompt !== undefined;
    return { job_id, ...(!hasBody && { payload: { ask: job_id } }), ...request };
  });
  for (const outcome of await world.settled(brain.submitMany(all, caller))) {
    if (outcome instanceof Error) throw outcome;
  }
  await world.pass(10);
}

/** The first life: a queue with room for two jobs, in which the oldest gives way. */
export async function firstLife(stage: Stage): Promise<void> {
  await submit(stage, { dropped: { type: 'nobody-runs-this' }, homeless: { type: 'nobody-runs-this' } });
  await submit(stage, { done: { agent: 'anna', key: 'finished', priority: 'interactive', score: 5 } });
  await submit(stage, { running: { timeout_ms: 8.64e9 } });
  await submit(stage, { 'talk-1': { session_id: 'talk', prompt: 'hello' } });
  await stage.world.settled(stage.brain.checkpoint());
}

export async function secondLife(stage: Stage): Promise<void> {
  const { world, brain } = stage;
  await keepRecords(stage);
  await endJobs(stage);
  await loseJobs(stage);
  await world.pass(12_000);
  await giveOrders(stage);
  await world.settled(brain.checkpoint());
  await runWorkers(stage);
  await world.pass(10_000);
  await world.settled(brain.checkpoint());
  await leaveOpen(stage);
}

const model = (id: string, gb: number) => ({
  id,
  name: `The ${id} model`,
  ref: `file:/models/${id}.gguf`,
  aliases: [] as string[],
  sizeBytes: (gb - 1) * 1e9,
  vramBytes: gb * 1e9,
  vramGuessed: undefined,
  contextLength: 32_768,
  slots: undefined,
  sha256: undefined,
  signature: undefined,
  publicKey: undefined,
});

/** Records that belong to no job: models, limits, a session's budget, leases. */
async function keepRecords({ world, brain }: Stage): Promise<void> {
  const { catalog, limits, sessions, leases } = brain;
  const sha256 = 'ab'.repeat(32);
  const signed = { sha256, signature: `${'A'.repeat(86)}==`, publicKey: `${'B'.repeat(43)}=` };
  await world.settled(catalog.register({ ...model('chat', 16), aliases: ['assistant', 'gpt'], slots: 2 }));
  await world.settled(catalog.register(model('coder', 22)));
  await world.settled(catalog.register({ ...model('embed', 4), ...signed, vramGuessed: true }));
  await world.settled(catalog.register(model('old', 8)));
  await world.settled(catalog.setState('old', 'retired'));
  const verified = { at: world.now, pool: 'west', verdict: 'pass', sha256 } as const;
  await world.settled(catalog.verified('embed', verified));
  const set = limits.set(
    [
      { scope: 'tenant:default', concurrency: 100 },
      { scope: 'agent:default/anna', tokenBudget: 1_000_000 },
      { scope: 'agent:*', requestsPerSec: 1000, burstRequests: 2000 },
      { scope: 'token:ci', tokensPerSec: 500, burstTokens: 10_000 },
      { scope: 'session:default/talk', tokenBudget: 5000 },
    ],
    'root',
  );
  await world.settled(set);
  await world.settled(sessions.setBudget('default', 'talk', 20_000));
  const lease = { agent: 'trainer', minMemoryMb: 20_000, ttlMs: 6 * HOUR_MS };
  await world.settled(leases.grant(lease, 'default'));
  await world.settled(leases.grant({ ...lease, agent: 'second', token: 'cd'.repeat(32) }, 'default'));
  const brief = await world.settled(leases.grant({ ...lease, ttlMs: 3000 }, 'acme'));
  await world.pass(1500);
  await world.settled(leases.heartbeat(brief.token, 'acme'));
  await world.settled(leases.release(brief.token, 'acme'));
}

/** Jobs that end, each in its own way. */
async function endJobs(stage: Stage): Promise<void> {
  const { world, brain } = stage;
  await submit(stage, {
    big: { session_id: 'talk' },
    retried: {},
    exhausted: { max_tries: 2 },
    poisoned: { key: 'poison' },
    redriven: {},
    'redriven-running': { deadline_ms: 2 * HOUR_MS },
    busy: {},
  });
  await submit(stage, { done: { key: 'finished' } }, { tenant: 'acme', principal: 'bert' });
  await submit(stage, {
    refused: {},
    spared: {},
    'offer-lost': {},
    overdue: { deadline_ms: 900 },
    'timed-out': { timeout_ms: 900, max_tries: 1 },
    expired: { type: 'nobody-runs-this', deadline_ms: 900 },
    counted: { type: 'word-count' },
  });
  await submit(stage, {
    'cancelled-running': {},
    'cancelled-open': {},
    'cancelled-parent': { not_before: LATER },
  });
  await submit(stage, { 'cancelled-child': { not_before: LATER, parent_id: 'cancelled-parent' } });
  for (const id of ['cancelled-running', 'cancelled-open', 'cancelled-parent'])
    await world.settled(brain.cancel(id, 'anna'));
  // Nothing is given that could be left out, not even the id.
  await world.settled(brain.submit({ payload: { text: PLAIN_TEXT } }));
}

/** Jobs whose executor has forgotten them. */
async function loseJobs(stage: Stage): Promise<void> {
  await submit(stage, {
    stale: { on_unknown: 'hold' },
    'judged-succeeded': { on_unknown: 'hold' },
    'judged-failed': { on_unknown: 'hold' },
    'judged-retry': {},
    'unknown-fails': { on_unknown: 'fail' },
    'unknown-repeats': { on_unknown: 'retry' },
  });
}

async function giveOrders({ world, brain }: Stage): Promise<void> {
  await world.settled(brain.resolve('judged-succeeded', { as: 'succeeded', result: [1, 2] }, 'root'));
  await world.settled(brain.resolve('judged-failed', { as: 'failed', message: 'seen to fail' }, 'root'));
  await world.settled(brain.resolve('judged-retry', { as: 'retry' }, 'root'));
  await world.settled(brain.redrive('redriven', 'root'));
  await world.settled(brain.redrive('redriven-running', 'root'));
  await world.pass(10);
}

/** Pools and workers: started, found, died, not started, drained, reloaded. */
async function runWorkers(stage: Stage): Promise<void> {
  const { world, brain, pools } = stage;
  pools.add('north', [24, 24], 'eu', { tier: 'gold' });
  pools.add('south', [24], 'us');
  pools.add('west', [24]);
  await world.settle();
  const showNext = async (status: 'ready' | 'failed' = 'ready'): Promise<void> => {
    const order = pools.starts.shift();
    if (!order) throw new Error('no worker was ordered');
    pools.show(order, status);
    await world.pass(10);
    if (status === 'failed') pools.hide(order.pool, order.id);
    await world.pass(10);
  };
  await submit(stage, {
    'chat-1': { model: 'assistant', agent: 'anna', session_id: 'talk', region: 'eu', prompt: 'hi' },
  });
  await showNext();
  await submit(stage, { 'chat-running': { model: 'chat', labels: { pool: 'south' } } });
  await showNext();
  await submit(stage, { 'embed-1': { model: 'embed', labels: { pool: 'west' } } });
  await showNext('failed');
  await showNext();
  const found = {
    id: 'found-1',
    pool: 'north',
    device: 1,
    modelRef: 'file:/models/embed.gguf',
    vramBytes: 4e9,
  };
  pools.show({ ...found, vramGuessed: undefined, slots: 1, contextLength: 8192 });
  await world.pass(10);
  pools.hide('north', 'found-1');
  await world.pass(10);
  const drain = { is: 'drain', deadlineMs: HOUR_MS } as const;
  await world.settled(brain.pools.command('south', drain, 'root'));
  await world.settled(brain.pools.command('west', { is: 'reload', model: 'coder' }, 'anna'));
}

/** Starts the jobs that are still under way when the store is left. */
async function leaveOpen(stage: Stage): Promise<void> {
  const { world, brain } = stage;
  await submit(stage, {
    parent: {},
    'session-head': { session_id: 'work' },
    'desk-running': { type: 'word-count' },
  });
  await submit(stage, {
    child: { parent_id: 'parent', not_before: LATER },
    'in-session': { session_id: 'work' },
    beside: { session_id: 'work', parallel: true },
    waiting: { not_before: LATER, payload: { text: LONG_TEXT } },
  });
  await submit(
    stage,
    {
      'every-field': {
        key: 'every key',
        agent: 'anna',
        session_id: 'work',
        parallel: true,
        type: 'inference',
        backend: 'worker',
        model: 'gpt',
        region: 'eu',
        labels: { tier: 'gold' },
        prompt: 'Say "every field"',
        max_tokens: 6000,
        temperature: 0.5,
        seed: 7,
        priority: 'interactive',
        score: 2.5,
        weight: 3,
        not_before: LATER,
        deadline_ms: 2 * HOUR_MS,
        timeout_ms: 60_000,
        max_tries: 5,
        parent_id: 'child',
        on_disconnect: 'continue',
        after_output: 'retry',
        on_unknown: 'retry',
      },
    },
    { principal: 'gateway', submittedBy: 'ci', correlationId: 'trace-1' },
  );
  await submit(
    stage,
    { waiting: { key: 'finished', session_id: 'talk', not_before: LATER } },
    { tenant: 'acme' },
  );
  await submit(stage, { 'code-1': { model: 'coder' }, cancelling: {}, overtime: { timeout_ms: 1000 } });
  await world.pass(1500);
  await world.settled(brain.cancel('cancelling', 'anna'));
  await submit(stage, { 'backing-off': {}, claimed: {} });
}
