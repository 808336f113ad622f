/** Nothing that a server, a job or a file says controls the terminal on which a command shows it. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { COMMANDS } from '../../src/cli/commands.ts';
import { run } from '../../src/cli/run.ts';
import { logText } from '../../src/cli/text/log-text.ts';
import { fakeTerminal } from '../fakes/terminal.ts';
import { hostileAnswer } from './hostile-answers.ts';

/** Sequences that clear the screen, set the title and colour text; C1, text turned around, invisible characters. */
const HOSTILE =
  'x\u001b[2J\u001b]0;title\u0007\u001b[31m\u009b2J\u009d0;t\u009c\u202ereversed\u2066\u200e\u061c\u200b\ufeff\u2028\rover\u0008\u007f';

const UNSAFE = /[\p{Cc}\p{Bidi_Control}\u200b\ufeff\u2028\u00ad]/u;
// Put together from parts: a control character has no place in a regular expression.
const OUR_OWN = new RegExp(`${'\u001b'}\\[(?:3[1-69]|39|90)m|\\r${'\u001b'}\\[2K|[\\n\\t]`, 'g');

const root = mkdtempSync(join(tmpdir(), 'orchd-hostile-'));
const job = {
  job_id: HOSTILE,
  type: HOSTILE,
  model: HOSTILE,
  route: { name: HOSTILE, model: HOSTILE, left: [{ model: HOSTILE, why: HOSTILE }] },
  cost: { amount: 1, assumed: 1, reserved: 1 },
  priority: HOSTILE,
  agent: HOSTILE,
  session_id: HOSTILE,
  key: HOSTILE,
  state: HOSTILE,
  status: HOSTILE,
  reason: HOSTILE,
  duplicate_of: HOSTILE,
  score: 0,
  tries: 0,
  max_tries: 1,
  created_at: 0,
  cancel_requested: true,
  waiting: { code: HOSTILE, text: HOSTILE },
  error: { code: HOSTILE, message: HOSTILE, reason: HOSTILE, retriable: false },
  result: { text: HOSTILE },
  attempts: [
    {
      attempt: 1,
      backend: HOSTILE,
      state: HOSTILE,
      outcome: HOSTILE,
      intended_at: 0,
      ended_at: 1,
      error: { code: HOSTILE, message: HOSTILE },
    },
  ],
};
const batch = {
  batch_id: HOSTILE,
  name: HOSTILE,
  created_at: 0,
  jobs: 2,
  live_jobs: 0,
  counts: { succeeded: 1, dead: 1, cancelled: 0 },
};
const approval = {
  call_id: HOSTILE,
  run_id: HOSTILE,
  agent: HOSTILE,
  tool: HOSTILE,
  args: { [HOSTILE]: HOSTILE },
  hash: HOSTILE,
  expires_at: 1,
};
const bulk = { matched: 2, changed: 1, refused: 1, refusal: HOSTILE, job_ids: [HOSTILE] };
const refusal = { code: HOSTILE, message: HOSTILE, next: HOSTILE, retriable: false };
const statusJob = { job_id: HOSTILE, type: HOSTILE, model: HOSTILE, backend: HOSTILE, since: 0 };
const status = {
  version: HOSTILE,
  status: HOSTILE,
  store: HOSTILE,
  uptime_ms: 1,
  now: 1,
  leader: { node: HOSTILE, leader: HOSTILE, epoch: HOSTILE },
  queue: { capacity: HOSTILE },
  jobs: { queued: HOSTILE, running: HOSTILE, claimed: 1, waiting: HOSTILE, stale: HOSTILE },
  running: [statusJob],
  held: [statusJob],
  backends: [
    { name: HOSTILE, kind: HOSTILE, slots: HOSTILE, models: [HOSTILE], types: null },
    { name: HOSTILE, kind: HOSTILE, slots: 1, problem: HOSTILE },
    { name: HOSTILE, kind: HOSTILE, slots: 1, up: true, rests: { until: 1, why: HOSTILE } },
  ],
  models: [
    {
      name: HOSTILE,
      state: HOSTILE,
      source: HOSTILE,
      model_ref: HOSTILE,
      context_length: HOSTILE,
      slots: HOSTILE,
    },
    { name: HOSTILE, state: HOSTILE, source: HOSTILE, model_ref: null, context_length: null },
  ],
  limits: [{ scope: HOSTILE, what: HOSTILE, used: HOSTILE, of: HOSTILE }],
  totals: { succeeded: HOSTILE, cancelled: HOSTILE, dead: HOSTILE },
};
const pool = {
  pool_id: HOSTILE,
  status: HOSTILE,
  address: HOSTILE,
  region: HOSTILE,
  problem: HOSTILE,
  heard_at: 0,
  draining: { by: HOSTILE },
  gpus: [{ id: HOSTILE, status: HOSTILE, reason: HOSTILE, total_vram: 1, available_vram: 1 }],
  workers: [
    {
      worker_id: HOSTILE,
      status: HOSTILE,
      gpu: HOSTILE,
      active: HOSTILE,
      slots: HOSTILE,
      vram_used: 1,
      model_ref: HOSTILE,
      why: HOSTILE,
    },
    {
      worker_id: HOSTILE,
      status: HOSTILE,
      gpu: 1,
      active: 1,
      vram_used: 1,
      model_ref: HOSTILE,
      error: { code: HOSTILE, message: HOSTILE },
    },
  ],
};
const session = {
  session_id: HOSTILE,
  created_at: 1,
  used_at: 1,
  tokens_used: 1,
  messages: 1,
  live_jobs: 0,
  jobs: [],
  metadata: { mode: HOSTILE },
};
const agent = { name: HOSTILE, model: HOSTILE, tools: [HOSTILE], version: HOSTILE, description: HOSTILE };
const routes = [
  {
    route: HOSTILE,
    steps: [
      { model: HOSTILE, on: [HOSTILE, 'time'], time: { from: HOSTILE, to: HOSTILE, time_zone: HOSTILE } },
      { model: HOSTILE, on: [], weight: HOSTILE },
    ],
  },
];
const schedule = {
  schedule: HOSTILE,
  cron: HOSTILE,
  time_zone: HOSTILE,
  overlap: HOSTILE,
  catch_up: HOSTILE,
  job: { prompt: HOSTILE },
  source: 'config',
  by: HOSTILE,
  next_at: null,
  last: { at: 1, outcome: HOSTILE, error: HOSTILE },
  admitted: 1,
  skipped: 1,
  refused: 1,
  missed: 1,
};
const moduleCounts = { accepted: 1, known: 1, refused: 1, postponed: 1, garbage: 1 };
const module = {
  name: HOSTILE,
  kind: 'file',
  state: HOSTILE,
  scans: 1,
  failures: 1,
  proposals: moduleCounts,
  next_scan_at: 1_800_000_000_000,
  last_error: HOSTILE,
  last_error_code: HOSTILE,
  handled: 1,
  pending: 1,
  handle_error: HOSTILE,
  handle_error_code: HOSTILE,
};
const prices = [{ model: HOSTILE, seat: HOSTILE, valid_from: HOSTILE, input: 1, request: 1 }];
const sums = { attempts: 1, input: 1, cache_read: 0, cache_write: 0, output: 1, reasoning: 0, cost: 1 };
const usage = {
  from: 0,
  to: 1,
  time_zone: 'UTC',
  currency: HOSTILE,
  by: ['model'],
  total: { ...sums, assumed: 1, overrun: 1, unpriced: 1 },
  groups: [{ ...sums, group: { model: HOSTILE } }],
};
const EVENTS = [
  ['queued', { job_id: HOSTILE }],
  [HOSTILE.replace(/[\r\n]/g, ''), { text: HOSTILE }],
  ['token', { t: HOSTILE, i: 0 }],
  ['step', { step: 2, jobs: [HOSTILE] }],
  ['tool_result', { job_id: HOSTILE, result: { ok: false, text: HOSTILE } }],
  ['reset', { attempt: 2 }],
  ['token', { t: HOSTILE, i: 0 }],
  ['error', { job_id: HOSTILE, state: 'dead', code: HOSTILE, message: HOSTILE }],
] as const;

/** Batches: true if it has answered. */
function answerBatch({ url = '', method, headers }: IncomingMessage, response: ServerResponse): boolean {
  const path = url.split('?', 1)[0] ?? '';
  const lines = (...values: object[]): void => {
    const text = values.map((value) => `${JSON.stringify(value)}\n`).join('');
    response.writeHead(200, { 'content-type': 'application/x-ndjson' }).end(text);
  };
  const send = (body: object): void => {
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  };
  if (url.includes('refuse')) return false;
  if (path.endsWith('/results')) lines({ ...job, n: 1 }, { ...job, n: 2, job_id: 'a.2' });
  else if (path === '/v2/batches' && method === 'GET') send({ batches: [batch] });
  else if (path.startsWith('/v2/batches')) send(batch);
  else if (/^\/v2\/tasks\/(cancel|redrive)$/.test(path)) send(bulk);
  else if (path === '/v2/tasks' && headers['content-type'] === 'application/x-ndjson')
    lines({ line: 1, http_status: 409, error: refusal });
  else return false;
  return true;
}

function answer(request: IncomingMessage, response: ServerResponse): void {
  const { url = '', method } = request;
  if (answerBatch(request, response)) return;
  const send = (status: number, body: object): void => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  };
  const other = hostileAnswer(url, HOSTILE);
  if (other && !url.includes('refuse')) send(200, other);
  else if (url.includes('refuse')) {
    send(409, { error: { code: HOSTILE, message: HOSTILE, next: HOSTILE, retriable: false } });
  } else if (url.includes('/missing')) {
    send(404, { error: { code: 'NOT_FOUND', message: HOSTILE, next: HOSTILE, retriable: false } });
  } else if (url === '/v2/meta/status') {
    send(200, status);
  } else if (url === '/v2/modules') {
    send(200, { modules: [module] });
  } else if (url.startsWith('/v2/modules/')) {
    send(202, module);
  } else if (url === '/v2/agents') {
    send(200, { agents: [agent] });
  } else if (url === '/v2/approvals') {
    send(200, { approvals: [approval, { ...approval, args: undefined }] });
  } else if (url.startsWith('/v2/tasks/call')) {
    send(200, { ...job, type: 'approval', state: 'waiting', tags: { run: HOSTILE, hash: HOSTILE } });
  } else if (/^\/v2\/agents\/.*\/runs$/.test(url)) {
    send(202, { run_id: HOSTILE, agent: HOSTILE });
  } else if (url.startsWith('/v2/runs/') && !url.includes('/events')) {
    send(200, { run_id: HOSTILE, state: HOSTILE, created_at: 1 });
  } else if (url.startsWith('/v2/sessions?')) {
    send(200, { sessions: [session] });
  } else if (/^\/v2\/sessions\/[^/]*\/(messages|export)$/.test(url)) {
    send(200, { session_id: HOSTILE, session, messages: [{ role: HOSTILE, content: HOSTILE }] });
  } else if (url.startsWith('/v2/sessions')) {
    send(200, session);
  } else if (url === '/v2/schedules') {
    send(200, { schedules: [schedule] });
  } else if (url.startsWith('/v2/schedules/')) {
    send(200, schedule);
  } else if (url === '/v2/catalog/routes') {
    send(200, { routes });
  } else if (url.startsWith('/v2/catalog/routes/')) {
    send(200, routes[0] ?? {});
  } else if (url === '/v2/prices') {
    send(200, { currency: HOSTILE, prices });
  } else if (url.startsWith('/v2/usage')) {
    send(200, usage);
  } else if (url.startsWith('/v2/seats/')) {
    send(200, { seat: HOSTILE, was_paused: true });
  } else if (url === '/v2/pools') {
    send(200, { pools: [pool] });
  } else if (url.includes('/events')) {
    const text = EVENTS.map(([event, data]) => `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
    response.writeHead(200, { 'content-type': 'text/event-stream' }).end(text.join(''));
  } else if (method === 'GET' && /\/v2\/tasks(\?|$)/.test(url)) {
    send(200, { jobs: [job, { ...job, waiting: undefined }], cursor: undefined });
  } else if (url.includes('ended')) {
    send(200, { ...job, waiting: undefined, state: 'succeeded', ended_at: 1 });
  } else send(method === 'POST' && url === '/v2/tasks' ? 202 : 200, job);
}

const server = createServer(answer);
let url = '';

before(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
after(() => {
  server.close();
  server.closeAllConnections();
  rmSync(root, { recursive: true });
});

function file(name: string, text: string): string {
  const path = join(root, name);
  writeFileSync(path, text);
  return path;
}

function folder(name: string, files: Record<string, string> = {}): string {
  const path = join(root, name);
  mkdirSync(path, { recursive: true });
  for (const [each, text] of Object.entries(files)) writeFileSync(join(path, each), text);
  return path;
}

const yaml = (): string =>
  file('hostile.yaml', `${JSON.stringify(HOSTILE)}: 1\nlog: { level: ${JSON.stringify(HOSTILE)} }\n`);
const tokens = JSON.stringify({
  tokens: [{ id: HOSTILE, name: HOSTILE, role: HOSTILE, tenant: HOSTILE, created_at: 0, hash: '' }],
});

/** Calls of every command with hostile text wherever a command takes or gets one; `URL` stands for the server. */
const CALLS: Record<string, () => string[][]> = {
  approvals: () => [[...at()], ['--json', ...at()], [HOSTILE]],
  approve: () => [
    ['call', ...at()],
    ['call', '--deny', '--why', HOSTILE, '--json', ...at()],
    ['a', ...at()],
    ['missing', ...at()],
    ['refuse', ...at()],
    [HOSTILE, ...at()],
  ],
  modules: () => [at(), ['--json', ...at()], ['scan', HOSTILE, ...at()], [HOSTILE]],
  agents: () => [[...at()], [HOSTILE, ...at()], ['missing', ...at()]],
  runs: () => [['pause', 'a', ...at()], ['resume', 'a', ...at()], ['pause', 'refuse', ...at()], [HOSTILE]],
  sessions: () => [
    at(),
    ['--json', ...at()],
    ['--archived', ...at()],
    ['show', 'a', ...at()],
    ['show', 'a', '--json', ...at()],
    ['export', 'a', ...at()],
    ['fork', 'a', '--as', HOSTILE, ...at()],
    ['delete', 'a', ...at()],
    [HOSTILE],
  ],
  chat: () => [
    ['missing', ...at()],
    [HOSTILE, 'more'],
    ['--session', HOSTILE],
  ],
  run: () => [
    ['helper', HOSTILE, ...at()],
    ['helper', HOSTILE, '--detach', ...at()],
    ['helper', HOSTILE, '--json', ...at()],
    ['missing', HOSTILE, ...at()],
    ['refuse', HOSTILE, ...at()],
    [HOSTILE, HOSTILE, HOSTILE],
  ],
  up: () => [
    [HOSTILE],
    ['--port', HOSTILE],
    ['--config', yaml()],
    ['--config', HOSTILE.replaceAll('\0', '')],
  ],
  pool: () => [[HOSTILE], ['--id', HOSTILE], ['--config', yaml()]],
  consume: () => [
    [HOSTILE],
    ['--pool', 'p', '--type', 't', '--slots', HOSTILE, '--', 'true'],
    ['--pool', 'p', '--type', 't', '--lease', HOSTILE, '--', 'true'],
  ],
  provision: () => [
    ['--interval', HOSTILE, '--', 'true'],
    ['--max', HOSTILE, '--', 'true'],
    ['--grace', HOSTILE, '--', 'true'],
    ['--url', HOSTILE, '--', 'true'],
  ],
  worker: () => [[HOSTILE], ['--engine', HOSTILE], ['--id', HOSTILE], ['--pool-manager', HOSTILE]],
  gateway: () => [
    [HOSTILE],
    ['--host', HOSTILE],
    ['--port', HOSTILE],
    ['--config', yaml()],
    ['--config', file('seat.yaml', `gateway: { seats: [{ name: ${JSON.stringify(HOSTILE)} }] }`)],
    ['--data', file('no-folder', '')],
  ],
  status: () => [at(), ['--json', ...at()], [HOSTILE]],
  models: () => [at(), ['--json', ...at()], [HOSTILE]],
  pools: () => [at(), ['--json', ...at()], [HOSTILE]],
  schedules: () => [
    at(),
    ['--json', ...at()],
    ['show', 'a', ...at()],
    ['set', 'a', file('schedule.yaml', 'every_sec: 60'), ...at()],
    ['set', 'a', yaml(), ...at()],
    ['set', 'a', HOSTILE.replaceAll('\0', '')],
    ['delete', 'refuse', ...at()],
    [HOSTILE],
  ],
  routes: () => [
    at(),
    ['--json', ...at()],
    ['set', 'a', file('route.yaml', 'steps: []'), ...at()],
    ['set', 'a', yaml(), ...at()],
    ['set', 'a', HOSTILE.replaceAll('\0', '')],
    ['delete', 'refuse', ...at()],
    [HOSTILE],
  ],
  governance: () => [
    at(),
    ['--json', ...at()],
    ['set', 'LOCKDOWN', '--why', HOSTILE, ...at()],
    ['set', HOSTILE, '--why', 'x'],
    ['set', 'LOCKDOWN'],
    [HOSTILE],
  ],
  tools: () => [
    at(),
    ['--json', ...at()],
    ['allow', 'a__b', ...at()],
    ['allow', HOSTILE, ...at()],
    [HOSTILE],
  ],
  reload: () => [at(), ['--json', ...at()], [HOSTILE]],
  replay: () => [
    ['a', ...at()],
    ['a', '--json', ...at()],
    ['refuse', ...at()],
    ['a', '--agent', yaml(), ...at()],
    [HOSTILE],
  ],
  fork: () => [
    ['a', '--step', '1', ...at()],
    ['a', '--step', HOSTILE],
    ['refuse', '--step', '1', ...at()],
    [HOSTILE],
  ],
  eval: () => [
    [folder('saved', { [`${HOSTILE}.json`]: HOSTILE })],
    [HOSTILE.replaceAll('\0', '')],
    ['--agent', yaml(), folder('none')],
  ],
  mcp: () => [[HOSTILE]],
  prices: () => [at(), ['--json', ...at()], ['set', yaml(), ...at()], [HOSTILE]],
  usage: () => [
    at(),
    ['--json', ...at()],
    ['--csv', ...at()],
    ['--by', HOSTILE, ...at()],
    ['--from', HOSTILE],
    ['--since', HOSTILE],
  ],
  resume: () => [
    ['a', ...at()],
    ['a', '--json', ...at()],
    ['refuse', ...at()],
  ],
  config: () => [
    ['check', yaml()],
    ['check', '--json', yaml()],
    ['show', yaml()],
    [HOSTILE],
    ['check', HOSTILE],
  ],
  submit: () => [
    ['a', ...at()],
    ['a', '--json', ...at()],
    ['a', '--follow', ...at()],
    ['a', '--follow', '--json', ...at()],
    ['--payload', HOSTILE],
    ['--file', HOSTILE.replaceAll('\0', '')],
    ['--file', file('faults.jsonl', `{${JSON.stringify(HOSTILE)}: 1}\n${HOSTILE}\n`)],
    ['--file', file('refused.jsonl', '"x"'), ...at()],
    ['--file', file('refused.jsonl', '"x"'), '--json', ...at()],
    ['a', '--at', HOSTILE],
    ['a', '--in', HOSTILE],
  ],
  wait: () => [
    ['a', ...at()],
    ['refuse', ...at()],
    ['a', '--timeout', HOSTILE],
  ],
  results: () => [
    ['a', ...at()],
    ['a', '--format', 'csv', ...at()],
    ['a', '--output', join(root, `${HOSTILE}.jsonl`), ...at()],
    ['refuse', ...at()],
  ],
  batches: () => [at(), ['--json', ...at()], ['--limit', HOSTILE]],
  jobs: () => [at(), ['--json', ...at()], ['--state', HOSTILE]],
  show: () => [
    ['a', ...at()],
    ['ended', ...at()],
    ['a', '--json', ...at()],
    ['refuse', ...at()],
    ['missing', ...at()],
    [HOSTILE, ...at()],
  ],
  explain: () => [
    ['a', ...at()],
    ['ended', ...at()],
    ['a', '--json', ...at()],
    ['refuse', ...at()],
  ],
  tail: () => [
    ['a', ...at()],
    ['a', '--json', ...at()],
    ['refuse', ...at()],
    ['a', '--after', HOSTILE],
  ],
  cancel: () => [
    ['--batch', 'a', '--dry-run', ...at()],
    ['--batch', 'a', '--yes', ...at()],
    ['--batch', 'a', ...at()],
    ['a', 'refuse', ...at()],
    ['a', 'refuse', 'missing', ...at()],
    ['a', '--json', ...at()],
  ],
  redrive: () => [
    ['--batch', 'a', '--dry-run', ...at()],
    ['--batch', 'a', '--yes', ...at()],
    ['--batch', 'a', ...at()],
    ['a', 'refuse', ...at()],
    ['a', '--json', ...at()],
  ],
  resolve: () => [
    ['a', '--as', 'retry', ...at()],
    ['a', '--as', HOSTILE],
    ['refuse', '--as', 'retry', ...at()],
  ],
  token: () => {
    const data = folder('tokens', { 'tokens.json': tokens });
    return [
      ['list', '--data', data],
      ['list', '--json', '--data', data],
      ['revoke', HOSTILE, '--data', data],
      [HOSTILE],
      ['create', HOSTILE, '--role', 'read'],
    ];
  },
  doctor: () => [
    [folder('damaged', { [HOSTILE]: '', 'checkpoint.json': HOSTILE })],
    [HOSTILE],
    ['--json', folder(HOSTILE)],
  ],
  migrate: () => [['--from', HOSTILE, '--to', HOSTILE], ['--config', yaml()], [HOSTILE]],
  completion: () => [[HOSTILE], ['bash']],
  spool: () => [[HOSTILE], ['ls', HOSTILE], ['show', folder(HOSTILE), HOSTILE], ['submit', HOSTILE, HOSTILE]],
  version: () => [[HOSTILE], ['--json']],
};

const at = (): string[] => ['--url', url];

for (const { name } of COMMANDS) {
  test(`${name} shows hostile text without its controls`, { timeout: 60_000 }, async () => {
    const calls = CALLS[name]?.();
    assert.ok(calls, `${name} has hostile calls in this test`);
    for (const words of [...calls, [`--${HOSTILE}`]]) {
      for (const noColour of [false, true]) {
        const { terminal, written } = fakeTerminal({ isTTY: true, noColour });
        await run([name, ...words], terminal);
        for (const text of Object.values(written)) {
          const unsafe = UNSAFE.exec(text.replace(OUR_OWN, ''));
          assert.equal(unsafe, null, `${JSON.stringify(words)}: ${JSON.stringify(text)}`);
        }
        assert.notEqual(written.out + written.err, '');
      }
    }
  });
}

test('an unknown command is named without its controls, and so is a line of the log', async () => {
  const { terminal, written } = fakeTerminal({ isTTY: true });
  await run([HOSTILE], terminal);
  const line = JSON.stringify({
    timestamp: 0,
    level: 'warn',
    message: HOSTILE,
    job_id: HOSTILE,
    reason: HOSTILE,
  });
  for (const text of [written.err, logText(line)]) assert.doesNotMatch(text.replace(OUR_OWN, ''), UNSAFE);
});

test('where nobody looks at a terminal, answers and JSON are what the server sent, byte for byte', async () => {
  const show = fakeTerminal();
  await run(['show', 'a', '--json', '--url', url], show.terminal);
  assert.deepEqual(JSON.parse(show.written.out), job);
  assert.ok(show.written.out.includes('\u202e') && show.written.out.includes('\u009b'));
  const follow = fakeTerminal();
  await run(['submit', 'a', '--follow', '--url', url], follow.terminal);
  assert.equal(follow.written.out, `${HOSTILE}\n${HOSTILE}\n`);
  const text = fakeTerminal();
  await run(['show', 'a', '--url', url], text.terminal);
  assert.doesNotMatch(
    text.written.out.replaceAll('\n', ''),
    UNSAFE,
    'text for people is safe behind a pager, too',
  );
});
