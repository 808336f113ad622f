/** Schedules with a clock that the test moves: each tick once, whatever is restarted, and the rules for what was missed. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { ConfiguredSchedules } from '../../src/adapters/schedules/configured-schedules.ts';
import { ScheduleTicker } from '../../src/adapters/schedules/schedule-ticker.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { createLogger } from '../../src/kit/logger.ts';
import type { WrittenSchedule } from '../../src/model/http/schedules.ts';
import { DEFAULT_TENANT } from '../../src/model/records.ts';
import { tickJobId } from '../../src/model/schedule.ts';
import type { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { HandClock } from '../fakes/hand-clock.ts';
import { httpBrain } from '../fakes/http-brain.ts';
import { jsonLines, orchd } from './cli-process.ts';
import { LASTING, onStores, refusalOf, start, startInline, tempFolder, turns } from './flow-kit.ts';

const ME = { tenant: DEFAULT_TENANT, by: 'me', source: 'api' } as const;
const SECOND: WrittenSchedule = { every_sec: 1, overlap: 'queue', catch_up: 'all', job: { type: 'nobody' } };

const DAY_MS = 86_400_000;

/** Some seconds of an event loop with little else to do. */
const MAX_TURNS = 200_000;

const logger = createLogger({ write: () => undefined, now: () => 0 });

async function ticking(
  t: TestContext,
  orchestrator: Orchestrator,
  { env }: HandClock,
): Promise<ScheduleTicker> {
  const ticker = new ScheduleTicker({ env, logger, orchestrator });
  t.after(() => ticker.stop());
  await ticker.start();
  return ticker;
}

async function decidedTo(orchestrator: Orchestrator, name: string, at: number): Promise<void> {
  const id = `${DEFAULT_TENANT}~${name}`;
  for (let turn = 0; turn < MAX_TURNS; turn++) {
    const record = await orchestrator.reads.schedules.record(id);
    if (record && record.tickedTo >= at) return;
    await new Promise((resolve) => setImmediate(resolve));
  }
  assert.fail(`the ticks of "${name}" up to ${new Date(at).toISOString()} are not decided`);
}

async function jobsOf(orchestrator: Orchestrator, name: string): Promise<string[]> {
  const { jobs } = await orchestrator.list({ tag: [`schedule=${name}`], limit: 1000 });
  return jobs.map(({ job_id }) => job_id).sort();
}

const floor = (at: number): number => Math.floor(at / 1000) * 1000;
const idsBetween = (name: string, from: number, to: number): string[] => {
  const ids: string[] = [];
  for (let at = floor(from) + 1000; at <= to; at += 1000) ids.push(tickJobId(name, at));
  return ids.sort();
};

onStores('each tick is one job, over restarts and while no brain is there', LASTING, async (t, data) => {
  const clock = new HandClock();
  let orchestrator = await start(t, { data, backends: [] });
  await orchestrator.schedules.set('s', SECOND, ME);
  const { tickedTo: from } = (await orchestrator.reads.schedules.records())[0]!;
  for (let round = 0; round < 4; round++) {
    const ticker = await ticking(t, orchestrator, clock);
    clock.pass(3000);
    // In the middle of the ticks that are due, and of others at their end.
    if (round % 2 === 0) await decidedTo(orchestrator, 's', floor(clock.now));
    await ticker.stop();
    const decided = await orchestrator.reads.schedules.records();
    await orchestrator.stop();
    clock.pass(5000);
    orchestrator = await start(t, { data, backends: [] });
    const known = await orchestrator.reads.schedules.records();
    assert.deepEqual(known, decided, 'ticks that were decided stay decided');
  }
  await ticking(t, orchestrator, clock);
  await decidedTo(orchestrator, 's', floor(clock.now));
  assert.deepEqual(await jobsOf(orchestrator, 's'), idsBetween('s', from, clock.now));
  const { admitted } = await orchestrator.reads.schedules.get('s');
  assert.equal(admitted, idsBetween('s', from, clock.now).length);
});

onStores('two leaders that follow each other decide each tick once', ['mariadb'], async (t, data) => {
  const clock = new HandClock();
  const first = await start(t, { data, backends: [] });
  await first.schedules.set('s', SECOND, ME);
  const { tickedTo: from } = (await first.reads.schedules.records())[0]!;
  await ticking(t, first, clock);
  clock.pass(4000);
  // The first one does not know yet that it is replaced, and goes on with its ticks.
  const second = await start(t, { data, backends: [] });
  clock.pass(4000);
  await ticking(t, second, clock);
  await decidedTo(second, 's', floor(clock.now));
  assert.deepEqual(await jobsOf(second, 's'), idsBetween('s', from, clock.now));
});

onStores('what was missed is made up for by the rule of the schedule', LASTING, async (t, data) => {
  const clock = new HandClock();
  let orchestrator = await start(t, { data, backends: [] });
  for (const catch_up of ['none', 'last', 'all'] as const)
    await orchestrator.schedules.set(catch_up, { ...SECOND, every_sec: 3600, catch_up }, ME);
  await orchestrator.stop();
  clock.pass(3 * 3_600_000 - ((clock.now + 30 * 60_000) % 3_600_000));
  orchestrator = await start(t, { data, backends: [] });
  await ticking(t, orchestrator, clock);
  const last = Math.floor(clock.now / 3_600_000) * 3_600_000;
  for (const name of ['none', 'last', 'all']) await decidedTo(orchestrator, name, last);
  const views = (await orchestrator.reads.schedules.list()).schedules;
  const counts = Object.fromEntries(
    views.map(({ schedule, admitted, missed }) => [schedule, [admitted, missed]]),
  );
  assert.deepEqual(
    [counts['none'], counts['last']],
    [
      [0, 1],
      [1, 1],
    ],
  );
  assert.ok((counts['all']?.[0] ?? 0) >= 2 && counts['all']?.[1] === 0);
  assert.deepEqual(await jobsOf(orchestrator, 'last'), [tickJobId('last', last)]);
});

onStores(
  'a clock that is set back doubles no tick, and one that jumps ahead loses none',
  LASTING,
  async (t, data) => {
    const clock = new HandClock();
    const orchestrator = await start(t, { data, backends: [] });
    await orchestrator.schedules.set('s', SECOND, ME);
    const { tickedTo: from } = (await orchestrator.reads.schedules.records())[0]!;
    await ticking(t, orchestrator, clock);
    const decided = async (): Promise<void> => {
      await decidedTo(orchestrator, 's', floor(clock.now));
      assert.deepEqual(await jobsOf(orchestrator, 's'), idsBetween('s', from, clock.now));
    };
    clock.pass(3000);
    await decided();
    const [before, all] = [clock.now, await jobsOf(orchestrator, 's')];
    clock.now -= 10_000;
    for (let second = 0; second < 9; second++) {
      clock.pass(1000);
      await turns();
    }
    assert.ok(clock.now < before);
    assert.deepEqual(await jobsOf(orchestrator, 's'), all, 'ticks that were decided are not due again');
    clock.pass(3000);
    await decided();
    clock.now += 600_000;
    // A step is followed once it has stood for a minute.
    for (let minute = 0; minute < 3; minute++) {
      await turns();
      clock.pass(60_000);
    }
    await decided();
  },
);

onStores('a clock that is a day ahead for some seconds leaves out no tick', LASTING, async (t, data) => {
  const clock = new HandClock();
  const orchestrator = await start(t, { data, backends: [] });
  await orchestrator.schedules.set('s', { ...SECOND, catch_up: 'last' }, ME);
  const { tickedTo: from } = (await orchestrator.reads.schedules.records())[0]!;
  await ticking(t, orchestrator, clock);
  const goOn = async (seconds: number): Promise<void> => {
    for (let second = 0; second < seconds; second++) {
      clock.pass(1000);
      for (let turn = 0; turn < 3; turn++) await turns();
    }
  };
  clock.pass(1000);
  await decidedTo(orchestrator, 's', floor(clock.now));
  clock.now += DAY_MS;
  await goOn(20);
  clock.now -= DAY_MS;
  await goOn(1);
  await decidedTo(orchestrator, 's', floor(clock.now));
  const decided = (await orchestrator.reads.schedules.records())[0]!.tickedTo;
  assert.ok(decided <= clock.now, 'no tick of the wrong day is decided');
  const jobs = await jobsOf(orchestrator, 's');
  assert.ok(jobs.every((id) => idsBetween('s', from, clock.now).includes(id)));
});

test('a schedule that is set twice in one instant of brain time ticks as it was set last', async (t) => {
  const clock = new HandClock();
  const still = { now: () => clock.now, monotonic: () => 0 };
  const orchestrator = await startInline(t, {
    data: tempFolder(t),
    env: { ...realEnv(), clock: still },
    backends: [],
  });
  await orchestrator.schedules.set('s', { ...SECOND, every_sec: 3600 }, ME);
  await ticking(t, orchestrator, clock);
  await orchestrator.schedules.set('s', SECOND, ME);
  await turns();
  clock.pass(1000);
  await decidedTo(orchestrator, 's', floor(clock.now));
});

test('a full queue delays a tick and does not lose it; a changed schedule forgets its former ticks', async (t) => {
  const clock = new HandClock();
  const orchestrator = await start(t, {
    data: 'memory',
    backends: [],
    config: 'orchestrator: { queue_capacity: 1 }',
  });
  await orchestrator.submit({ job_id: 'full', type: 'nobody' });
  await orchestrator.schedules.set('s', { ...SECOND, every_sec: 3600 }, ME);
  await ticking(t, orchestrator, clock);
  const tick = Math.ceil(clock.now / 3_600_000) * 3_600_000;
  clock.pass(tick - clock.now);
  // Until it was refused: the try that follows waits for the clock.
  for (let n = 0; n < 50; n++) await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(await jobsOf(orchestrator, 's'), []);
  await orchestrator.orders.cancel('full', 'test', DEFAULT_TENANT);
  clock.pass(2000);
  await decidedTo(orchestrator, 's', tick);
  assert.deepEqual(await jobsOf(orchestrator, 's'), [tickJobId('s', tick)]);
  await orchestrator.schedules.set('s', { ...SECOND, every_sec: 7200 }, ME);
  assert.equal((await orchestrator.reads.schedules.get('s')).every_sec, 7200);
});

test('the schedules of the configuration are set, changed and deleted with it, and keep their place while they are unchanged', async (t) => {
  const orchestrator = await start(t, { data: 'memory', backends: [] });
  const changed: string[] = [];
  orchestrator.schedules.subscribe((id) => changed.push(id));
  const configure = async (...schedules: (WrittenSchedule & { name: string })[]): Promise<string[]> => {
    changed.length = 0;
    await new ConfiguredSchedules({ clock: realEnv().clock, orchestrator, schedules }).start();
    return changed.map((id) => id.replace(`${DEFAULT_TENANT}~`, ''));
  };
  assert.deepEqual(await configure({ ...SECOND, name: 'a' }), ['a']);
  assert.deepEqual(await configure({ ...SECOND, name: 'a' }, { ...SECOND, name: 'b' }), ['b']);
  assert.deepEqual(await configure({ ...SECOND, name: 'b', every_sec: 60 }), ['a', 'b']);
  const records = await orchestrator.reads.schedules.records();
  assert.deepEqual(
    records.map(({ name, everyMs, source }) => [name, everyMs, source]),
    [['b', 60_000, 'config']],
  );
  const refusal = await refusalOf(() => orchestrator.schedules.remove('b', ME));
  assert.equal(refusal.code, 'ILLEGAL_STATE');
});

test('schedules over HTTP: set, shown, listed in pages, deleted; bad ones are refused and change nothing', async (t) => {
  const brain = await httpBrain({ data: tempFolder(t) });
  t.after(() => brain.stop());
  const ask = async (method: string, path: string, body?: object) => {
    const response = await fetch(`${brain.url}${path}`, {
      method,
      ...(body && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
    });
    const text = await response.text();
    return { status: response.status, body: text === '' ? undefined : JSON.parse(text) };
  };
  const good = {
    cron: '30 2 * * *',
    time_zone: 'Europe/Berlin',
    job: { prompt: 'Hello', wait_for_backend: true },
  };
  for (const name of ['c', 'a', 'b'])
    assert.equal((await ask('PUT', `/v2/schedules/${name}`, good)).status, 200);
  const shown = await ask('GET', '/v2/schedules/a');
  assert.deepEqual(
    [shown.body.schedule, shown.body.overlap, shown.body.catch_up, shown.body.last, shown.body.job.prompt],
    ['a', 'skip', 'last', null, 'Hello'],
  );
  assert.ok(shown.body.next_at > Date.now());
  const page = await ask('GET', '/v2/schedules?limit=2');
  assert.deepEqual(
    [page.body.schedules.map((each: { schedule: string }) => each.schedule), page.body.next],
    [['a', 'b'], 'b'],
  );
  assert.equal((await ask('GET', '/v2/schedules?after=b')).body.schedules[0].schedule, 'c');
  for (const [field, bad] of [
    ['cron', { ...good, cron: '0 0 30 2 *' }],
    ['cron', { job: good.job }],
    ['time_zone', { ...good, time_zone: 'Mars' }],
    ['job.key', { ...good, job: { prompt: 'x', key: 'k' } }],
    ['type', { ...good, job: { type: 'tool', payload: {} } }],
    ['every_sec', { every_sec: 0.1, job: good.job }],
    ['overlap', { ...good, overlap: 'perhaps' }],
  ] as const) {
    const { status, body } = await ask('PUT', '/v2/schedules/a', bad);
    assert.deepEqual([status, body.error.code, body.error.field], [400, 'INVALID_PARAMS', field]);
  }
  assert.equal((await ask('PUT', '/v2/schedules/a.b', good)).status, 400);
  assert.deepEqual((await ask('GET', '/v2/schedules/a')).body, shown.body);
  assert.equal((await ask('DELETE', '/v2/schedules/a')).status, 204);
  assert.equal((await ask('DELETE', '/v2/schedules/a')).status, 404);
  assert.equal((await ask('GET', '/v2/schedules/a')).body.error.code, 'NOT_FOUND');
});

test('`orchd schedules` sets, shows, lists and deletes schedules, and says what is wrong with one', async (t) => {
  const brain = await httpBrain({ data: 'memory' });
  t.after(() => brain.stop());
  const here = (...words: string[]) => orchd(['schedules', ...words, '--url', brain.url]);
  const file = join(dirname(tempFolder(t)), 'schedule.yaml');
  assert.match((await here()).err, /no schedules/);
  writeFileSync(
    file,
    'cron: "30 2 * * *"\ntime_zone: Europe/Berlin\njob: {prompt: Hello, wait_for_backend: true}\n',
  );
  const { code, out } = await here('set', 'nightly', file);
  assert.equal(code, 0);
  assert.match(out, /^nightly\n +when +30 2 \* \* \* \(Europe\/Berlin\); overlap skip, catch-up last\n/);
  assert.match(
    (await here()).out,
    /^nightly +30 2 \* \* \* \(Europe\/Berlin\) +\d{4}-\S+ \d\d:30:00 +0 +0 +0 +-$/m,
  );
  const [listed] = jsonLines((await here('--json')).out);
  assert.deepEqual(listed, jsonLines((await here('show', 'nightly', '--json')).out)[0]);
  writeFileSync(file, 'cron: "0 0 30 2 *"\njob: {prompt: Hello}\n');
  const wrong = await here('set', 'nightly', file);
  assert.notEqual(wrong.code, 0);
  assert.match(wrong.err, /"0 0 30 2 \*" is never due after now/);
  assert.deepEqual(jsonLines((await here('--json')).out), [listed], 'and nothing has changed');
  assert.equal((await here('delete', 'nightly')).code, 0);
  const gone = await here('delete', 'nightly');
  assert.notEqual(gone.code, 0);
  assert.match(gone.err, /there is no schedule "nightly"/);
});
