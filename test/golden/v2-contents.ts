/** The contents of the golden data v2 to v4 as plain values, and the check that a brain shows exactly those. */
import assert from 'node:assert/strict';
import { LATER, NOW, type Opened, START } from './v2-kit.ts';

export const LONG_TEXT = 'lorem ipsum '.repeat(350);

const NOT_BEFORE = { code: 'not_before', text: 'waits until 2027-01-15T09:00:00.000Z' };

/** Every job of the default tenant, newest first: state, tries, and each attempt as its outcome or its state. */
const jobsWith = (plain: string): [id: string, state: string, tries: number, ...attempts: string[]][] => [
  ['claimed', 'claimed', 0, 'intended'],
  ['backing-off', 'queued', 1, 'failed'],
  ['overtime', 'running', 0, 'accepted'],
  ['cancelling', 'running', 0, 'accepted'],
  ['code-1', 'queued', 0],
  ['every-field', 'queued', 0],
  ['waiting', 'queued', 0],
  ['beside', 'succeeded', 0, 'succeeded'],
  ['in-session', 'queued', 0],
  ['child', 'queued', 0],
  ['desk-running', 'running', 0, 'accepted'],
  ['session-head', 'running', 0, 'accepted'],
  ['parent', 'running', 0, 'accepted'],
  ['embed-1', 'succeeded', 0, 'succeeded'],
  ['chat-running', 'running', 0, 'accepted'],
  ['chat-1', 'succeeded', 0, 'succeeded'],
  ['unknown-repeats', 'succeeded', 1, 'abandoned', 'succeeded'],
  ['unknown-fails', 'dead', 1, 'abandoned'],
  ['judged-retry', 'succeeded', 0, 'abandoned', 'succeeded'],
  ['judged-failed', 'dead', 1, 'abandoned'],
  ['judged-succeeded', 'succeeded', 0, 'abandoned'],
  ['stale', 'stale', 0, 'unknown'],
  [plain, 'succeeded', 0, 'succeeded'],
  ['cancelled-child', 'cancelled', 0],
  ['cancelled-parent', 'cancelled', 0],
  ['cancelled-open', 'cancelled', 0, 'accepted'],
  ['cancelled-running', 'cancelled', 0, 'cancelled'],
  ['counted', 'succeeded', 0, 'succeeded'],
  ['expired', 'dead', 0],
  ['timed-out', 'dead', 1, 'cancelled'],
  ['overdue', 'dead', 1, 'cancelled'],
  ['offer-lost', 'succeeded', 0, 'abandoned', 'succeeded'],
  ['spared', 'succeeded', 0, 'succeeded'],
  ['refused', 'dead', 1, 'abandoned'],
  ['busy', 'succeeded', 0, 'abandoned', 'succeeded'],
  ['redriven-running', 'running', 0, 'failed', 'accepted'],
  ['redriven', 'succeeded', 0, 'failed', 'succeeded'],
  ['poisoned', 'dead', 1, 'failed'],
  ['exhausted', 'dead', 2, 'failed', 'failed'],
  ['retried', 'succeeded', 1, 'failed', 'succeeded'],
  ['big', 'succeeded', 0, 'succeeded'],
  ['talk-1', 'succeeded', 0, 'succeeded'],
  ['running', 'running', 0, 'accepted'],
  ['done', 'succeeded', 0, 'succeeded'],
  ['homeless', 'queued', 0],
  ['dropped', 'dead', 0],
];

const resultsWith = (plain: string): Record<string, unknown> => ({
  done: { says: 'done', try: 1 },
  'talk-1': { says: 'hello' },
  big: LONG_TEXT,
  retried: { says: 'retried', try: 2 },
  redriven: { says: 'redriven', try: 2 },
  'judged-succeeded': [1, 2],
  'unknown-repeats': { says: 'unknown-repeats', try: 2 },
  'chat-1': { says: 'hi' },
  [plain]: { says: plain, try: 1 },
});

/** Why each dead job is dead: its reason, and the code and the message of its error. */
const DEATHS: Readonly<Record<string, readonly string[]>> = {
  dropped: ['dropped', 'QUEUE_FULL', 'dropped to make room for newer work'],
  exhausted: ['failed', 'EXECUTION_FAILED', 'second'],
  poisoned: ['failed', 'EXECUTION_FAILED', 'it is poison'],
  refused: ['failed', 'INVALID_PARAMS', 'no such tool'],
  overdue: ['expired', 'DEADLINE_EXCEEDED', 'The job did not end before its deadline.'],
  'timed-out': ['failed', 'WORKER_TIMEOUT', 'it ran longer than its timeout of 900 ms'],
  expired: ['expired', 'DEADLINE_EXCEEDED', 'The job did not end before its deadline.'],
  'judged-failed': ['failed', 'UNKNOWN_OUTCOME', 'seen to fail'],
  'unknown-fails': ['failed', 'UNKNOWN_OUTCOME', 'the backend cannot say whether it ran'],
};

/** Why each job waits that is not over and does not run. */
const WAITS: Readonly<Record<string, object>> = {
  homeless: { code: 'no_backend', text: 'no backend runs type "nobody-runs-this"' },
  stale: { code: 'unknown_outcome', text: 'backend "scripted" cannot say what became of it' },
  'in-session': { code: 'session_busy', text: 'job "session-head" of the same session goes first' },
  child: NOT_BEFORE,
  waiting: NOT_BEFORE,
  'every-field': NOT_BEFORE,
  'code-1': { code: 'worker_start', text: 'a worker with another model is on its way out' },
  cancelling: { code: 'cancelling', text: 'cancelled; waits for the backend to confirm' },
  'backing-off': { code: 'not_before', text: 'waits until 2027-01-15T09:00:25.290Z' },
  claimed: { code: 'offer', text: 'being offered to "scripted"' },
};

/** Checks that a brain that was opened at NOW, with executors that say nothing, shows what the golden data hold. */
export async function assertContents(opened: Opened): Promise<void> {
  await assertJobs(opened);
  await assertWholeViews(opened);
  await assertSessions(opened);
  await assertModels(opened);
  await assertLimitsAndLeases(opened);
  await assertPools(opened);
}

async function assertJobs({ brain, ids }: Opened): Promise<void> {
  const { jobs, cursor } = await brain.list({ limit: 100 });
  assert.equal(cursor, undefined);
  assert.deepEqual(
    jobs.map(({ job_id, state, tries, attempts }) => [
      job_id,
      state,
      tries,
      ...attempts.map((attempt) => attempt.outcome ?? attempt.state),
    ]),
    jobsWith(ids.plain),
  );
  for (const job of jobs) {
    assert.deepEqual(
      job.attempts.map(({ attempt }) => attempt),
      job.attempts.map((_, at) => at + 1),
      `the attempts of ${job.job_id} are numbered from 1`,
    );
  }
  const dead = jobs.filter(({ state }) => state === 'dead');
  assert.deepEqual(
    Object.fromEntries(
      dead.map(({ job_id, reason, error }) => [job_id, [reason, error?.code, error?.message]]),
    ),
    DEATHS,
  );
  const waiting = jobs.filter((job) => job.waiting !== undefined);
  assert.deepEqual(Object.fromEntries(waiting.map((job) => [job.job_id, job.waiting])), WAITS);
  for (const [id, result] of Object.entries(resultsWith(ids.plain)))
    assert.deepEqual((await brain.get(id)).result, result);
  const { jobs: acme } = await brain.list({}, 'acme');
  assert.deepEqual(
    acme.map(({ job_id, state, agent, key }) => [job_id, state, agent, key]),
    [
      ['waiting', 'queued', 'anonymous', 'finished'],
      ['done', 'succeeded', 'bert', 'finished'],
    ],
  );
}

/** Three jobs in full: one with every wish, one with a history, one that ended while its attempt is still open. */
async function assertWholeViews({ brain }: Opened): Promise<void> {
  assert.deepEqual(await brain.get('every-field'), {
    payload: { prompt: 'Say "every field"', max_tokens: 6000, temperature: 0.5, seed: 7 },
    payload_bytes: 77,
    job_id: 'every-field',
    state: 'queued',
    type: 'inference',
    priority: 'interactive',
    agent: 'anna',
    score: 2.5,
    created_at: START + 23_760,
    tries: 0,
    max_tries: 5,
    attempts: [],
    key: 'every key',
    session_id: 'work',
    model: 'chat',
    model_ref: 'file:/models/chat.gguf',
    not_before: LATER,
    predicted_start_ms: LATER - NOW,
    waiting: NOT_BEFORE,
  });
  const at = START + 1540;
  const first = { attempt: 1, backend: 'scripted', state: 'ended', outcome: 'failed' };
  const notYet = { code: 'EXECUTION_FAILED', message: 'not yet', retriable: false };
  const again = START + 13_600;
  const second = { attempt: 2, backend: 'scripted', state: 'ended', outcome: 'succeeded' };
  assert.deepEqual(await brain.get('redriven'), {
    payload: { ask: 'redriven' },
    payload_bytes: 18,
    job_id: 'redriven',
    state: 'succeeded',
    type: 'inference',
    priority: 'batch',
    agent: 'anonymous',
    score: 0,
    created_at: at,
    tries: 0,
    max_tries: 3,
    attempts: [
      { ...first, error: notYet, intended_at: at, accepted_at: at, ended_at: at },
      { ...second, intended_at: again, accepted_at: again, ended_at: again },
    ],
    started_at: again,
    ended_at: again,
    result: { says: 'redriven', try: 2 },
  });
  const { attempts, cancel_requested, started_at, ended_at, error } = await brain.get('cancelled-open');
  const open = { intended_at: START + 1590, accepted_at: START + 1590 };
  assert.deepEqual(attempts, [{ attempt: 1, backend: 'scripted', state: 'accepted', ...open }]);
  assert.deepEqual([cancel_requested, error?.code], [true, 'CANCELLED']);
  assert.deepEqual([started_at, ended_at], [START + 1590, START + 6590]);
}

/** Sessions of that version had none. */
const NO_CONVERSATION = { messages: 0, metadata: {} };

async function assertSessions({ brain, ids }: Opened): Promise<void> {
  assert.deepEqual(await brain.reads.sessions.get('default', 'talk'), {
    session_id: 'talk',
    created_at: START + 30,
    used_at: START + 13_620,
    turns: 3,
    tokens_used: 142,
    tokens_reserved: 0,
    token_budget: 20_000,
    backend: `north/${ids.workers.running}`,
    jobs: [],
    live_jobs: 0,
    ...NO_CONVERSATION,
  });
  const other = await brain.reads.sessions.get('acme', 'talk');
  assert.deepEqual([other.turns, other.jobs], [0, [{ job_id: 'waiting', state: 'queued' }]]);
  assert.deepEqual(await brain.reads.sessions.get('default', 'work'), {
    session_id: 'work',
    created_at: START + 23_740,
    used_at: START + 23_750,
    turns: 1,
    tokens_used: 0,
    tokens_reserved: 6005,
    token_budget: null,
    backend: 'scripted',
    jobs: [
      { job_id: 'session-head', state: 'running' },
      { job_id: 'in-session', state: 'queued' },
      { job_id: 'every-field', state: 'queued' },
    ],
    live_jobs: 3,
    ...NO_CONVERSATION,
  });
}

async function assertModels({ brain }: Opened): Promise<void> {
  const model = (id: string, gb: number) => ({
    model_id: id,
    name: `The ${id} model`,
    model_ref: `file:/models/${id}.gguf`,
    aliases: [] as string[],
    base: null,
    size_bytes: (gb - 1) * 1e9,
    vram_bytes: gb * 1e9,
    context_length: 32_768,
    lifecycle_state: 'Active',
    slots: null as number | null,
    sha256: null as string | null,
    signed: false,
    verified: null as object | null,
    created_at: START + 40,
    updated_at: START + 40,
  });
  const sha256 = 'ab'.repeat(32);
  const verified = { at: START + 40, pool: 'west', verdict: 'pass', sha256 };
  assert.deepEqual(await brain.reads.models(), [
    { ...model('chat', 16), aliases: ['assistant', 'gpt'], slots: 2 },
    model('coder', 22),
    { ...model('embed', 4), sha256, signed: true, verified },
    { ...model('old', 8), lifecycle_state: 'Retired' },
  ]);
}

async function assertLimitsAndLeases({ brain, ids }: Opened): Promise<void> {
  assert.deepEqual(await brain.reads.limits(), [
    { scope: 'tenant:default', concurrency: 100 },
    { scope: 'agent:default/anna', tokenBudget: 1_000_000 },
    { scope: 'agent:*', requestsPerSec: 1000, burstRequests: 2000 },
    { scope: 'token:ci', tokensPerSec: 500, burstTokens: 10_000 },
    { scope: 'session:default/talk', tokenBudget: 5000 },
  ]);
  // A new leader gives each lease its whole time once more.
  const times = { granted_at: START + 40, expires_at: NOW + 6 * 3_600_000 };
  const common = { tenant: 'default', pool: null, attempt: null, min_memory_mb: 20_000, ...times };
  assert.deepEqual(await brain.reads.leases('default'), [
    { token: ids.lease, agent: 'trainer', mode: 'gpu', gpu_index: 0, fence: 37, ...common },
    { token: 'cd'.repeat(32), agent: 'second', mode: 'cpu', gpu_index: null, fence: 38, ...common },
  ]);
  assert.deepEqual(await brain.reads.leases('acme'), []);
}

async function assertPools({ brain, pools, ids }: Opened): Promise<void> {
  const views = await brain.reads.pools();
  const workers = views.flatMap(({ pool_id, workers: all }) =>
    all.map(({ worker_id, status, active, why }) => [pool_id, worker_id, status, active, why]),
  );
  assert.deepEqual(workers, [
    ['north', ids.workers.running, 'ready', 0, 'demand'],
    ['south', ids.workers.draining, 'draining', 1, ids.reasons.draining],
    ['west', ids.workers.stopping, 'draining', 0, ids.reasons.stopping],
  ]);
  assert.deepEqual(
    views.map(({ pool_id, status, draining }) => [pool_id, status, draining]),
    [
      ['north', 'ok', null],
      ['south', 'draining', { by: 'root', deadline: START + 3_613_740 }],
      ['west', 'ok', null],
    ],
  );
  // A start that was under way is ordered again and again until the pool shows the worker.
  const [start] = pools.starts;
  assert.deepEqual([...new Set(pools.starts.map(({ id }) => id))], [ids.workers.starting]);
  assert.deepEqual(
    [start?.id, start?.pool, start?.device, start?.modelRef, start?.vramBytes, start?.contextLength],
    [ids.workers.starting, 'north', 1, 'file:/models/embed.gguf', 4e9, 32_768],
  );
  assert.deepEqual(
    [start?.vramGuessed, start?.slots],
    [true, undefined],
    'what is not known of a model is not ordered',
  );
  assert.deepEqual([...new Set(pools.endings)].sort(), [
    `drain south/${ids.workers.draining}`,
    `stop west/${ids.workers.stopping}`,
  ]);
}
