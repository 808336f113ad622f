/** Growing without the core: a gateway, a module and a schedule are added to a running server by its configuration alone. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { FakeOpenAi } from '../fakes/providers/openai.ts';
import { jsonLines, orchd, start } from './cli-process.ts';
import { dataOf, LASTING, onStores } from './flow-kit.ts';
import { gatewayWith, ReloadSite } from './reload-kit.ts';

const ECHO_JOB = { type: 'echo', payload: 'tick' };

for (const how of ['SIGHUP', 'POST'] as const)
  onStores(
    `[FANO-12] a second gateway, a module and a schedule are added while it runs, by ${how}, and do their work`,
    LASTING,
    async (t, place) => {
      const first = await gatewayWith(t, 'one');
      const second = await gatewayWith(t, 'two');
      first.provider.answersAtOnce = true;
      second.provider.answersAtOnce = true;
      const site = new ReloadSite(t, place);
      const pool = { url: first.gateway.url };
      await site.up({ pool });
      site.write({
        pool,
        backends: { gateways: [{ name: 'second', url: second.gateway.url }] },
        modules: [{ name: 'finder', file: site.module('finder'), interval_sec: 0.2 }],
        schedules: [{ name: 'often', every_sec: 1, job: ECHO_JOB }],
      });
      const report = how === 'SIGHUP' ? await site.hangUp() : await site.post();
      assert.deepEqual([report.outcome, report.leads, report.restart_needed], ['applied', true, []]);
      const added = (section: string, name: string) => ({ section, added: [name], changed: [], removed: [] });
      assert.deepEqual(report.changes, [
        added('backends.gateways', 'second'),
        added('modules', 'finder'),
        added('schedules', 'often'),
      ]);
      assert.equal(report.by, how === 'SIGHUP' ? 'SIGHUP' : 'local');
      await site.submit('old-seat', { model: 'one', prompt: 'Hello' });
      await site.submit('new-seat', { model: 'two', prompt: 'Hello' });
      await site.succeeded('old-seat');
      await site.succeeded('new-seat');
      assert.deepEqual([first.provider.bills.length, second.provider.bills.length], [1, 1]);
      const jobsBy = async (tag: string): Promise<string[]> => {
        const { jobs } = await site.get<{ jobs: { job_id: string; state: string }[] }>(
          `/v2/tasks?tag=${tag}`,
        );
        return jobs.filter(({ state }) => state === 'succeeded').map(({ job_id }) => job_id);
      };
      await site.until(async () => (await jobsBy('module%3Dfinder')).length === 1);
      await site.until(async () => (await jobsBy('schedule%3Doften')).length >= 2);
    },
  );

const WRONG: readonly (readonly [what: string, more: object, code: string, place: RegExp])[] = [
  ['a key that does not exist', { queue: 1 }, 'CONFIG_INVALID', /config\.yaml:\d+:\d+: queue: unknown key/],
  ['a number out of range', { orchestrator: { queue_capacity: 0 } }, 'CONFIG_INVALID', /queue_capacity/],
  [
    'a gateway whose token is not there',
    { backends: { gateways: [{ name: 'x', url: 'http://127.0.0.1:1', token_env: 'NO_SUCH' }] } },
    'CONFIG_INVALID',
    /config\.yaml:\d+:\d+: backends\.gateways\[0\]\.token_env: the variable NO_SUCH is not set/,
  ],
  [
    'a module with two programs',
    { modules: [{ name: 'm', file: 'a', argv: ['b'] }] },
    'CONFIG_INVALID',
    /modules\[0\]: the module "m" needs either/,
  ],
  [
    'a schedule on February 30th',
    { schedules: [{ name: 's', cron: '0 0 30 2 *', job: ECHO_JOB }] },
    'CONFIG_INVALID',
    /schedules\[0\]\.cron/,
  ],
  [
    'a schedule with a job that is too long',
    { schedules: [{ name: 's', every_sec: 9, job: { type: 'echo', payload: 'x'.repeat(70_000) } }] },
    'CONFIG_INVALID',
    /schedules\[0\]\.job: the job is longer than 65536 characters/,
  ],
  [
    'a schedule of a kind of job that only runs of agents have',
    { schedules: [{ name: 's', every_sec: 9, job: { type: 'tool', payload: {} } }] },
    'CONFIG_INVALID',
    /schedules\[0\]\.job: jobs of type "tool"/,
  ],
];

onStores(
  '[FANO-12] one wrong line refuses the whole: nothing changes, and the place is named',
  LASTING,
  async (t, place) => {
    const { gateway } = await gatewayWith(t, 'one');
    const site = new ReloadSite(t, place);
    const schedules = [{ name: 'kept', every_sec: 3600, job: ECHO_JOB }];
    await site.up({
      schedules: [...schedules, { name: 'dropped', every_sec: 3600, job: ECHO_JOB }],
      modules: [{ name: 'kept', file: site.module('kept'), interval_sec: 3600 }],
    });
    const before = await site.shown();
    const right = {
      backends: { gateways: [{ name: 'right', url: gateway.url }] },
      modules: [{ name: 'right', file: site.module('right') }],
      schedules: [
        { name: 'right', every_sec: 1, job: ECHO_JOB },
        { ...schedules[0], every_sec: 60 },
      ],
    };
    for (const [what, wrong, code, message] of WRONG) {
      site.write(joined(right, wrong));
      const { status, error } = await site.refused();
      assert.deepEqual([status, error.code], [400, code], what);
      assert.match(error.message, message, what);
      assert.deepEqual(await site.shown(), before, what);
      const report = await site.hangUp();
      assert.deepEqual([report.outcome, report.error?.code, report.changes], ['refused', code, []], what);
      assert.deepEqual(await site.shown(), before, what);
    }
    site.write(right);
    await site.post();
    const after = await site.shown();
    assert.deepEqual(after.modules, ['right']);
    assert.deepEqual(
      after.schedules.map(([name, everySec]) => [name, everySec]),
      [
        ['kept', 60],
        ['right', 1],
      ],
    );
    assert.ok(after.backends.includes('right:s one'));
  },
);

/** The lists of both, and the other keys of both. */
function joined(a: object, b: object): object {
  const both: Record<string, unknown> = { ...a };
  for (const [key, value] of Object.entries(b)) {
    const known = both[key];
    if (Array.isArray(known) && Array.isArray(value)) both[key] = [...value, ...known];
    else if (typeof known === 'object' && typeof value === 'object' && known && value)
      both[key] = joined(known, value);
    else both[key] = value;
  }
  return both;
}

onStores(
  'running jobs and streams go on over a reload, also those on a gateway that it removes',
  LASTING,
  async (t, place) => {
    const { gateway, provider } = await gatewayWith(t, 'one');
    const other = await gatewayWith(t, 'two');
    const site = new ReloadSite(t, place);
    const entry = { name: 'old', url: gateway.url };
    await site.up({ backends: { gateways: [entry] } });
    await site.submit('runs', { model: 'one', prompt: 'runs' });
    await provider.billed(1);
    const events = await fetch(`${site.server.url}/v2/tasks/runs/events`);
    const heard = (async () => {
      let text = '';
      for await (const piece of events.body ?? []) text += Buffer.from(piece).toString();
      return text;
    })();
    site.write({ backends: { gateways: [entry, { name: 'new', url: other.gateway.url }] } });
    assert.equal((await site.post()).outcome, 'applied');
    site.write({ backends: { gateways: [{ name: 'new', url: other.gateway.url }] } });
    const { changes } = await site.post();
    assert.deepEqual(changes, [{ section: 'backends.gateways', added: [], changed: [], removed: ['old'] }]);
    await site.until(async () => (await site.shown()).backends.includes('old:s '));
    provider.release('runs');
    assert.equal((await site.succeeded('runs')).attempts.length, 1);
    assert.match(await heard, /event: end/);
    assert.equal(provider.bills.length, 1);
    await site.until(async () => !(await site.shown()).backends.some((each) => each.startsWith('old:')));
  },
);

test('[FANO-12] a new gateway that cannot be kept on disk refuses the whole, and nothing else has changed', async (t) => {
  const { gateway } = await gatewayWith(t, 'one');
  const site = new ReloadSite(t, '');
  await site.up({ schedules: [{ name: 'kept', every_sec: 3600, job: ECHO_JOB }] });
  const before = await site.shown();
  site.write({
    backends: { gateways: [{ name: 'right', url: gateway.url }] },
    modules: [{ name: 'right', file: site.module('right') }],
    schedules: [{ name: 'right', every_sec: 1, job: ECHO_JOB }],
  });
  const place = join(site.folder, 'data', 'gateways');
  writeFileSync(place, 'no folder');
  const { status, error } = await site.refused();
  assert.deepEqual([status, error.code], [400, 'CONFIG_INVALID']);
  assert.match(error.message, /^its files cannot be written to .*gateways \(ENOTDIR\)/);
  assert.deepEqual(await site.shown(), before);
  rmSync(place);
  const { outcome, changes } = await site.post();
  assert.deepEqual(
    [outcome, changes.map(({ section }) => section)],
    ['applied', ['backends.gateways', 'modules', 'schedules']],
  );
  await site.until(async () => (await site.shown()).backends.includes('right:s one'));
});

test('settings that need a restart are named at every reload until then, and are not used', async (t) => {
  const site = new ReloadSite(t, '');
  await site.up({});
  site.write({
    orchestrator: { queue_capacity: 77 },
    modules: [{ name: 'm', file: site.module('m'), interval_sec: 3600 }],
  });
  const first = await site.post();
  assert.deepEqual([first.outcome, first.restart_needed], ['applied', ['orchestrator.queue_capacity']]);
  const second = await site.post();
  assert.deepEqual([second.outcome, second.restart_needed], ['unchanged', ['orchestrator.queue_capacity']]);
  const { queue } = await site.get<{ queue: { capacity: number } }>('/v2/meta/capabilities');
  assert.equal(queue.capacity, 10_000);
});

test('a file that is gone or cannot be read refuses a reload, and variables and options of the start still hold', async (t) => {
  const site = new ReloadSite(t, '');
  const variables = { ORCHD_MODULES: JSON.stringify([{ name: 'set', argv: ['true'], interval_sec: 3600 }]) };
  await site.up({}, { env: variables, args: ['--upstream', 'http://127.0.0.1:9'] });
  const before = await site.shown();
  rmSync(site.file);
  const { status, error } = await site.refused();
  assert.deepEqual([status, error.code], [400, 'CONFIG_INVALID']);
  assert.match(error.message, /config\.yaml" cannot be read \(ENOENT\)/);
  execFileSync('mkfifo', [site.file]);
  assert.match((await site.refused()).error.message, /config\.yaml" is no file, and cannot be read again/);
  rmSync(site.file);
  writeFileSync(site.file, '');
  assert.match((await site.refused()).error.message, /config\.yaml" is empty/);
  assert.deepEqual(await site.shown(), before);
  site.write({ modules: [{ name: 'other', argv: ['true'] }] });
  const report = await site.post();
  assert.deepEqual([report.outcome, report.restart_needed], ['unchanged', []]);
  assert.deepEqual(await site.shown(), before);
});

test('a server without a configuration file says so, and a SIGHUP does not end it', async (t) => {
  const site = new ReloadSite(t, '');
  const running = start(['up', '--port', '0', '--data', `${site.folder}/data`]);
  t.after(() => void running.child.kill('SIGKILL'));
  const url = /listens on (\S+)/.exec(await running.saw('err', /press Ctrl-C to stop/))?.[1] as string;
  site.server = { ...running, url, port: '', kill: async () => undefined };
  const { status, error } = await site.refused();
  assert.deepEqual([status, error.code], [409, 'NO_CONFIG_FILE']);
  assert.equal((await site.hangUp()).error?.code, 'NO_CONFIG_FILE');
  const { code, err } = await orchd(['reload', '--url', url]);
  assert.equal(code, 1);
  assert.match(err, /without a configuration file/);
});

test('a SIGHUP while it starts is obeyed when it is up, and one while it stops changes nothing', async (t) => {
  const site = new ReloadSite(t, '');
  writeFileSync(site.file, JSON.stringify(site.config()));
  const running = start(['up', '--port', '0', '--data', `${site.folder}/data`, '--config', site.file], {
    env: { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(SIGNALS_ITSELF)}` },
  });
  t.after(() => void running.child.kill('SIGKILL'));
  const url = /listens on (\S+)/.exec(await running.saw('err', /press Ctrl-C to stop/))?.[1] as string;
  site.server = { ...running, url, port: '', kill: async () => undefined };
  await site.until(async () => (await site.reports()).length === 1);
  running.child.kill('SIGTERM');
  running.child.kill('SIGHUP');
  assert.equal((await running.ended).code, 0);
});

/** Sends itself a SIGHUP as soon as somebody listens to it. */
const SIGNALS_ITSELF = `
const on = process.on;
process.on = function (name, ...rest) {
  const result = on.call(process, name, ...rest);
  if (name === 'SIGHUP') process.kill(process.pid, 'SIGHUP');
  return result;
};`;

test('reloads that are ordered at once share one after the other, and each reads the file of its time', async (t) => {
  const site = new ReloadSite(t, '');
  await site.up({});
  site.write({ modules: [{ name: 'm', argv: ['true'], interval_sec: 3600 }] });
  const reports = await Promise.all(Array.from({ length: 20 }, () => site.post()));
  assert.ok(reports.some(({ outcome }) => outcome === 'applied'));
  assert.ok((await site.reports()).length <= 10);
  assert.deepEqual((await site.shown()).modules, ['m']);
});

test('`orchd reload` prints what has changed, as text and as JSON', async (t) => {
  const site = new ReloadSite(t, '');
  await site.up({});
  site.write({ log: { level: 'debug' }, schedules: [{ name: 's', every_sec: 60, job: ECHO_JOB }] });
  const text = await orchd(['reload', '--url', site.server.url]);
  assert.deepEqual(text.out.split('\n').slice(0, 2), [
    'schedules: added s',
    'log.level: has changed, and takes effect at the next start',
  ]);
  const [json] = jsonLines((await orchd(['reload', '--json', '--url', site.server.url])).out);
  assert.deepEqual([json?.['outcome'], json?.['restart_needed']], ['unchanged', ['log.level']]);
});

test('seats of the own gateway come with their first entry, change their key, and go when their job has ended', async (t) => {
  // Before the hook that removes the folder, which names the process of the gateway.
  t.after(async () => {
    await site.server.kill();
    const address = readFileSync(join(site.folder, 'data', 'gateway', 'address.json'), 'utf8');
    process.kill(JSON.parse(address).process.pid, 'SIGKILL');
  });
  const site: ReloadSite = new ReloadSite(t, '');
  const provider = new FakeOpenAi(join(site.folder, 'bills.jsonl'));
  await provider.start();
  t.after(() => provider.stop());
  const keyFile = join(site.folder, 'key');
  writeFileSync(keyFile, 'first', { mode: 0o600 });
  provider.key = 'first';
  const seat = (name: string, model: string) => ({
    ...{ name, driver: 'openai', mode: 'responses', url: provider.url },
    ...{ key_file: keyFile, models: [model] },
  });
  const seats = (...list: object[]) => ({ gateway: { bind_addr: '127.0.0.1:0', seats: list } });
  const changed = async (): Promise<unknown> => {
    const { changes, restart_needed } = await site.post();
    return [...changes, ...restart_needed];
  };
  const section = { section: 'gateway.seats', added: [], changed: [], removed: [] };
  await site.up({});
  site.write(seats(seat('a', 'one')));
  assert.deepEqual(await changed(), [{ ...section, added: ['a'] }]);
  await site.submit('first', { model: 'one', prompt: 'first' });
  await site.succeeded('first');

  provider.key = 'second';
  writeFileSync(keyFile, 'second');
  site.write(seats(seat('a', 'one'), seat('b', 'two')));
  assert.deepEqual(await changed(), [{ ...section, added: ['b'], changed: ['a'] }]);
  for (const model of ['one', 'two']) {
    await site.submit(`${model}-again`, { model, prompt: model });
    await site.succeeded(`${model}-again`);
  }

  provider.stage.hold('before-end');
  await site.submit('runs', { model: 'one', prompt: 'runs' });
  await site.until(() => provider.ledger.bills.some(({ prompt }) => prompt === 'runs'));
  site.write(seats(seat('b', 'two')));
  assert.deepEqual(await changed(), [{ ...section, removed: ['a'] }]);
  provider.stage.release('before-end');
  assert.equal((await site.succeeded('runs')).attempts.length, 1);
  assert.equal(provider.ledger.bills.filter(({ prompt }) => prompt === 'runs').length, 1);
  await site.until(async () => !(await site.shown()).backends.some((each) => each.startsWith('a ')));
  assert.ok((await site.shown()).backends.includes('b two'));
});

test('a node that does not lead keeps what has changed for the time when it leads', async (t) => {
  const place = await dataOf(t, 'mariadb');
  const leader = new ReloadSite(t, place);
  const standby = new ReloadSite(t, place);
  const cluster = (node: string) => ({ cluster: { node, lease_ms: 2000 } });
  const modules = [{ name: 'm', file: standby.module('m'), interval_sec: 3600 }];
  await leader.up(cluster('a'));
  await leader.until(async () => (await leader.get<{ is_leader: boolean }>('/leader')).is_leader);
  await standby.up(cluster('b'));
  standby.write({ ...cluster('b'), modules });
  const { leads, outcome, changes } = await standby.post();
  assert.deepEqual([leads, outcome, changes[0]?.added], [false, 'applied', ['m']]);
  assert.deepEqual((await standby.shown()).modules, [], 'those of the leader');
  assert.deepEqual(await leader.reports(), [], 'the file of the other node was not read');
  await leader.server.kill();
  await standby.until(async () => (await standby.shown()).modules.join() === 'm');
});
