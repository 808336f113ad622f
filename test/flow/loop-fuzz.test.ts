/**
 * No request keeps the event loop busy for more than 50 ms: hostile bodies on every route that takes one, at the brain
 * and its OpenAI door, the worker and the pool manager. `LOOP_ALL=1` sends all of them instead of a sample,
 * `LOOP_SEED=N` another sample.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { type ExecutionRouteContext, executionRoutes } from '../../src/daemons/execution/routes.ts';
import { type PoolRouteContext, poolRoutes } from '../../src/daemons/pool-manager/routes.ts';
import { DemoEngine } from '../../src/daemons/worker/demo-engine.ts';
import { Worker } from '../../src/daemons/worker/worker.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { createLogger } from '../../src/kit/logger.ts';
import { EPOCH_HEADER, OWNER_HEADER, TOKEN_HEADER } from '../../src/model/worker-wire.ts';
import type { Route } from '../../src/wire/route.ts';
import { HOSTILE, type HostileBody, type HostileName } from '../fakes/hostile-json.ts';
import { httpBrain } from '../fakes/http-brain.ts';
import { LoopClient } from '../fakes/loop-client.ts';
import { LoopClock } from '../fakes/loop-clock.ts';
import { pool, poolFolder } from '../fakes/pool-kit.ts';
import { SeededRandom } from '../fakes/world.ts';

const MAX_TURN_MS = 50;
const DEADLINE_MS = 3_600_000;
const ALL = process.env['LOOP_ALL'] === '1';

/** Valid values of fields that routes require, so that a request fails at its hostile field only. */
const VALID: Readonly<Record<string, unknown>> = {
  model: 'tiny',
  messages: [{ role: 'user', content: 'hi' }],
  prompt: 'hi',
  input: 'hi',
  as: 'succeeded',
  job_id: 'known',
};

interface Case {
  readonly method: string;
  readonly path: string;
  readonly body: HostileBody;
}

interface Schema {
  readonly properties?: object;
  readonly required?: readonly string[];
  readonly anyOf?: readonly Schema[];
}

/** Every route that takes a body, each hostile text as its body and as each of its fields. */
function casesOf(routes: readonly Route[]): Case[] {
  const names = Object.keys(HOSTILE) as HostileName[];
  return routes
    .filter(({ method }) => method !== 'GET')
    .flatMap(({ method, path, body }) => {
      const schema = (body ?? {}) as Schema;
      const branches = [schema, ...(schema.anyOf ?? [])];
      const fields = new Set(branches.flatMap(({ properties = {} }) => Object.keys(properties)));
      const required = new Set(branches.flatMap(({ required: each = [] }) => each));
      const rest = Object.fromEntries(Object.entries(VALID).filter(([name]) => required.has(name)));
      const at = { method, path: path.replace(':id', 'known').replace(/:\w+/g, 'known') };
      return names.flatMap((name) => [
        { ...at, body: { name, field: undefined, rest } },
        ...[...fields, 'unknown'].map((field) => ({ ...at, body: { name, field, rest } })),
        ...(schema.anyOf && fields.has('payload')
          ? ['payload', 'labels'].map((field) => ({
              ...at,
              body: { name, field, rest: { job_id: 'b' }, isBulk: true },
            }))
          : []),
      ]);
    });
}

const titleOf = ({ method, path, body: { name, field, isBulk } }: Case): string =>
  `${method} ${path}: ${name}${field === undefined ? '' : ` as ${isBulk ? '[…].' : ''}"${field}"`}`;

/** Always among the sample: each holds the loop for long if one of the measures against it is missing. */
const KNOWN: readonly (readonly [path: string, field: string | undefined, name: HostileName])[] = [
  ['/v2/tasks', undefined, 'an object of 490,000 keys'],
  ['/v2/tasks', 'labels', 'an object of 490,000 keys'],
  ['/v2/tasks', 'labels', 'an object of 19,999 keys'],
  ['/v2/tasks', 'payload', '245,000 objects of another key each'],
  ['/v2/tasks', 'payload', 'a text of 8 million line ends'],
  ['/v2/tasks', 'payload', 'a text of 16 million backslashes'],
  ['/v2/tasks', 'payload', '24 objects of 19,999 keys'],
  ['/v2/tasks', undefined, '24 objects of 19,999 keys'],
  ['/v2/tasks/known/resolve', 'result', '24 objects of 19,999 keys'],
  ['/v2/limits', 'limits', '10,000 limits, the last of another form'],
  ['/v1/chat/completions', 'response_format', 'an object of 19,999 keys'],
  ['/v1/chat/completions', 'messages', '10,000 messages, the last of another form'],
  ['/leases', undefined, 'an object of 490,000 keys'],
  ['/v2/tasks/known/cancel', undefined, 'a name of 16 MB'],
];

const isKnown = ({ path, body }: Case): boolean =>
  KNOWN.some((known) => known[0] === path && known[1] === body.field && known[2] === body.name);

function chosen(cases: readonly Case[], size: number): readonly Case[] {
  if (ALL) return cases;
  const random = new SeededRandom(Number(process.env['LOOP_SEED'] ?? 50));
  const known = cases.filter(isKnown);
  const sample = Array.from({ length: size - known.length }, () => random.pick(cases));
  return [...known, ...sample];
}

async function measured(
  send: () => Promise<{ readonly status: number }>,
  clock: LoopClock,
): Promise<{ readonly status: number; readonly longestMs: number; readonly said: string }> {
  let status = 0;
  const best = await clock.best(MAX_TURN_MS, async () => {
    status = (await send()).status;
  });
  return { status, ...best };
}

interface Fuzzed {
  readonly port: number;
  readonly routes: readonly Route[];
  readonly headers?: Readonly<Record<string, string>>;
  /** Cases that are sent, unless all are. */
  readonly sample: number;
}

async function fuzz(t: TestContext, { port, routes, headers = {}, sample }: Fuzzed): Promise<void> {
  const client = new LoopClient();
  const clock = new LoopClock();
  t.after(() => client.stop());
  t.after(() => clock.stop());
  const slow: string[] = [];
  const statuses = new Map<number, number>();
  let worst = 0;
  for (const each of chosen(casesOf(routes), sample)) {
    const send = () => client.send({ port, headers, ...each });
    const { status, longestMs, said } = await measured(send, clock);
    worst = Math.max(worst, longestMs);
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
    const line = `${titleOf(each)}: ${said}, status ${status}`;
    if (longestMs > MAX_TURN_MS) slow.push(line);
    if (ALL) console.log(line);
  }
  const answers = JSON.stringify(Object.fromEntries([...statuses].sort()));
  t.diagnostic(`longest turn ${worst} ms, answers ${answers}`);
  assert.deepEqual(slow, []);
  assert.deepEqual(
    [...statuses.keys()].filter((status) => status >= 500),
    [],
  );
}

test('no hostile body keeps the loop of the brain busy for more than 50 ms', {
  timeout: DEADLINE_MS,
}, async (t) => {
  // The only slot is taken by a job that never ends, so that no job of a request runs in this process.
  const never = (): Promise<never> => new Promise(() => undefined);
  const brain = await httpBrain({
    config: 'orchestrator: { queue_capacity: 100000 }',
    backends: [{ name: 'b', slots: 1, models: ['tiny'], types: { inference: never } }],
  });
  t.after(() => brain.stop());
  await brain.orchestrator.submit({ job_id: 'known', prompt: 'hi', model: 'tiny' });
  await fuzz(t, { port: brain.port, routes: brain.routes, sample: 24 });
});

/** As long as the head of a request may be. */
const QUERIES = [
  'x=1&'.repeat(3500),
  `state=${'queued,'.repeat(2000)}`,
  `cursor=${'9'.repeat(14_000)}`,
  '&'.repeat(14_000),
];

test('no hostile query keeps the loop of the brain busy for more than 50 ms', async (t) => {
  const brain = await httpBrain();
  t.after(() => brain.stop());
  const client = new LoopClient();
  t.after(() => client.stop());
  const clock = new LoopClock();
  t.after(() => clock.stop());
  for (const { method, path } of brain.routes.filter(({ streams }) => !streams)) {
    for (const query of QUERIES) {
      const at = `${path.replace(/:\w+/g, 'known')}?${query}`;
      const send = () => client.send({ port: brain.port, method, path: at });
      const { status, longestMs, said } = await measured(send, clock);
      assert.ok(longestMs <= MAX_TURN_MS && status < 500, `${method} ${at.slice(0, 60)}: ${said}, ${status}`);
    }
  }
});

const ORDER = { [OWNER_HEADER]: 'brain', [EPOCH_HEADER]: '1', [TOKEN_HEADER]: 'known:1' };

test('no hostile body keeps the loop of a worker busy for more than 50 ms', {
  timeout: DEADLINE_MS,
}, async (t) => {
  const env = realEnv();
  const engine = new DemoEngine({ env, model: 'demo', slots: 1, contextLength: 50, delayMs: 0 });
  const logger = createLogger({ write: () => undefined, now: () => 0 });
  const worker = new Worker({ env, engine, logger, id: 'w', modelRef: 'demo', host: '127.0.0.1', port: 0 });
  t.after(() => worker.stop());
  await worker.start();
  await worker.loaded;
  // Its shutdown is left out: it would end the worker.
  const routes = executionRoutes({} as ExecutionRouteContext).filter(({ path }) => path !== '/shutdown');
  await fuzz(t, { port: Number(new URL(worker.url).port), routes, headers: ORDER, sample: 7 });
});

test('no hostile body keeps the loop of a pool manager busy for more than 50 ms', {
  timeout: DEADLINE_MS,
}, async (t) => {
  const { url } = await pool(t, poolFolder(t));
  const routes = poolRoutes({} as PoolRouteContext);
  await fuzz(t, { port: Number(new URL(url).port), routes, headers: ORDER, sample: 7 });
});
