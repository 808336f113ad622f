import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { moduleSite, until } from '../../../test/fakes/module-kit.ts';
import { processesBy } from '../../kit/process/identity.ts';

const WORK = `{ key: 'a', type: 'work', payload: 1 }, { key: 'b', type: 'work', payload: 2 }`;

/** The number of living processes of modules whose mark ends so. */
const processesOf = (name: string): number =>
  [...processesBy('ORCHD_MODULE')].filter(([mark]) => mark.includes(`/${name}/`)).flatMap(([, pids]) => pids)
    .length;

test('[FANO-10] a module is polled on its interval, and its proposals become jobs with its name', async (t) => {
  const site = moduleSite(t);
  await site.start(
    site.file('seldom', 'export const scan = () => [];', { interval_sec: 1000 }),
    site.file('finder', `export const scan = () => [${WORK}];`, { interval_sec: 0.05 }),
  );
  const { last_scan, next_scan_at = 0 } = await site.scanned('seldom');
  assert.ok(next_scan_at >= (last_scan?.ended_at ?? Infinity) + 1_000_000);
  const { proposals, last_error } = await site.scanned('finder', 3);
  assert.equal(site.view('seldom').scans, 1, 'its interval is longer');
  assert.deepEqual([proposals.accepted, last_error], [2, undefined]);
  assert.ok(proposals.known >= 4, 'the same work again is known');
  const { jobs } = await site.orchestrator.list({ tag: 'module=finder' });
  assert.deepEqual(jobs.map(({ key }) => key).sort(), ['a', 'b']);
  assert.ok(jobs.every(({ agent }) => agent === 'module/finder'));
});

test('a scan may be a list, a promise, a generator or an async generator, and commands print lines', async (t) => {
  const site = moduleSite(t);
  await site.start(
    site.file('promise', `export const scan = async () => [${WORK}];`),
    site.file('generator', `export function* scan() { yield* [${WORK}]; }`),
    site.file('async', `export async function* scan() { console.log('said'); yield* [${WORK}]; }`),
    site.file('iterable', `export const scan = (async function* () { yield* [${WORK}]; })();`),
    site.shell('lines', `echo '{"key":"c","type":"work","payload":1}'; printf '{"type":"work","payload":1}'`),
    site.file('nothing', `export const scan = () => undefined;`),
  );
  for (const name of ['promise', 'generator', 'async', 'iterable', 'lines', 'nothing']) {
    const { proposals, state, last_error } = await site.scanned(name);
    assert.deepEqual([state, last_error, proposals.garbage], ['idle', undefined, 0], name);
  }
  // Modules share keys, and a live job of a key is found by all of them: each has two proposals answered.
  for (const name of ['promise', 'generator', 'async', 'iterable', 'lines']) {
    const { accepted, known } = site.view(name).proposals;
    assert.equal(accepted + known, 2, name);
  }
});

test('[FANO-10] the same proposals again change nothing: while jobs run, after they ended, and after a restart', async (t) => {
  const site = moduleSite(t);
  const source = `export const scan = () => [${WORK}, { type: 'work', payload: 'no name' }, { job_id: 'own', type: 'work' }];`;
  const config = site.file('again', source);
  await site.start(config);
  assert.equal((await site.scanned('again')).proposals.accepted, 4);
  const jobs = await site.jobs();
  for (const job of jobs) await site.orchestrator.wait(job);
  site.modules.scanNow('again');
  assert.equal((await site.scanned('again', 2)).proposals.known, 4);
  await site.stop();
  // The text of a proposal has changed, and its key has not.
  await site.start(site.file('again', source.replace('payload: 1', 'payload: 100')));
  const { proposals } = await site.scanned('again');
  assert.deepEqual([proposals.accepted, proposals.known, proposals.refused], [0, 4, 0]);
  assert.deepEqual(await site.jobs(), jobs);
});

test('a module that throws fails alone: it says why, is tried again later, and goes on when it works', async (t) => {
  const site = moduleSite(t);
  const source = `import { existsSync } from 'node:fs';
export async function* scan() {
  yield { key: 'first', type: 'work' };
  if (!existsSync(${JSON.stringify(site.path('repaired'))})) throw new Error('the source is away');
}`;
  await site.start(
    site.file('thrower', source),
    site.file('well', `export const scan = () => [${WORK}];`),
    site.file('absent', 'export const other = 1;'),
    { ...site.shell('unknown', ''), argv: ['no-such-program-anywhere'] },
  );
  const { state, last_error, failures, next_scan_at, proposals } = await site.scanned('thrower');
  assert.deepEqual([state, failures, proposals.accepted], ['failing', 1, 1]);
  assert.match(last_error ?? '', /status 1: the source is away$/);
  for (const name of ['thrower', 'absent', 'unknown'])
    assert.equal((await site.scanned(name)).last_error_code, 'MODULE_FAILED', name);
  assert.ok(
    next_scan_at !== undefined && next_scan_at <= Date.now() + 1000,
    'before its interval of an hour',
  );
  assert.match((await site.scanned('absent')).last_error ?? '', /exports no scan\(\)/);
  assert.match((await site.scanned('unknown')).last_error ?? '', /cannot be started \(ENOENT\)/);
  assert.equal((await site.scanned('well')).state, 'idle');
  const again = await site.scanned('thrower', 2);
  assert.equal(again.failures, 2);
  writeFileSync(site.path('repaired'), '');
  const repaired = await until(() => site.view('thrower').state === 'idle' && site.view('thrower'));
  assert.deepEqual([repaired.failures, repaired.last_error], [0, undefined]);
  const scans = Object.fromEntries(
    site.tally.scans.samples().map(([{ module, outcome }, count]) => [`${module} ${outcome}`, count]),
  );
  assert.ok(scans['thrower failed']! >= 2);
  assert.equal(scans['thrower ok'], 1);
});

test('[FANO-10] a scan that hangs is ended with all that it has started, and so is one at the stop', async (t) => {
  const site = moduleSite(t);
  const forks = `import { spawn } from 'node:child_process';
spawn('sleep', ['600']);
spawn('setsid', ['sleep', '600'], { detached: true }).unref();
export const scan = () => new Promise((resolve) => setTimeout(resolve, 600_000));`;
  const left = site.path('left');
  await site.start(
    site.file('hangs', forks, { timeout_sec: 1 }),
    site.file('blocks', 'while (true);', { timeout_sec: 1 }),
    site.shell('shell', 'sleep 600 & sleep 600', { timeout_sec: 1 }),
    site.shell(
      'leaves',
      `setsid sh -c 'touch ${left}; exec sleep 600' >/dev/null 2>&1 & until test -e ${left}; do sleep 0.05; done; echo '{"key":"left","type":"work"}'`,
    ),
    site.file('stopped', forks),
  );
  for (const name of ['hangs', 'blocks', 'shell']) {
    const view = await until(() => site.view(name).scans > 0 && site.view(name));
    const { state, last_error, last_error_code } = view;
    assert.equal(last_error_code, 'MODULE_TIMEOUT');
    assert.match(last_error ?? '', /took longer than 1 s \(timeout_sec\)/, name);
    assert.notEqual(state, 'idle');
  }
  const { last_error, proposals } = await site.scanned('leaves');
  assert.deepEqual([last_error, proposals.accepted], [undefined, 1]);
  assert.equal(processesOf('leaves'), 0, 'what a scan leaves behind is ended');
  await until(() => processesOf('stopped') >= 3);
  await site.stop();
  for (const name of ['hangs', 'blocks', 'shell', 'stopped']) assert.equal(processesOf(name), 0, name);
});

const PRINTED_MB = Number(process.env['ORCHD_TEST_PRINTED_MB'] ?? 20);

test('garbage and very long output harm nothing else, and the first bad line is named', async (t) => {
  const site = moduleSite(t);
  await site.start(
    site.shell(
      'garbage',
      `echo '{"key":"good","type":"work"}'; echo; echo 'not json'; echo '[1]'; echo 7; head -c 65536 /dev/urandom | tr -d '\\n'; echo; echo '{"key":"good too","type":"work"}'; head -c 1000000 /dev/zero >&2`,
    ),
    site.shell(
      'long',
      `head -c ${PRINTED_MB}000000 /dev/zero | tr '\\0' x; echo; echo '{"key":"after","type":"work"}'; head -c 3000000 /dev/zero | tr '\\0' '\\n'`,
      { timeout_sec: 3600 },
    ),
    site.shell('much', `yes ${'x'.repeat(999)} | head -n 5000`, { timeout_sec: 3600 }),
    site.shell('endless', 'yes x', { timeout_sec: 3600 }),
    site.file(
      'refused',
      `export const scan = () => [{ key: 'x', type: 'nobody-runs-this' }, { key: 'y', tags: 1 }];`,
    ),
  );
  const garbage = await site.scanned('garbage');
  assert.deepEqual([garbage.proposals.accepted, garbage.proposals.garbage, garbage.state], [2, 4, 'idle']);
  assert.match(garbage.last_error ?? '', /^line 3 is no proposal/);
  assert.equal(garbage.last_error_code, 'INVALID_PARAMS');
  const long = await site.scanned('long', 1, 3000 * PRINTED_MB);
  assert.equal(long.last_error_code, 'TOO_LARGE');
  const much = await site.scanned('much', 1, 3000 * PRINTED_MB);
  assert.deepEqual([much.proposals.garbage, much.state], [5000, 'idle']);
  const endless = await site.scanned('endless');
  assert.deepEqual([endless.state, endless.last_error_code], ['failing', 'MODULE_FAILED']);
  assert.match(endless.last_error ?? '', /^more than 10000 lines are no proposals; line 1 is no proposal/);
  assert.deepEqual([long.proposals.accepted, long.proposals.garbage], [1, 1]);
  assert.match(long.last_error ?? '', /^line 1 is no proposal: it is longer than 1048576 bytes/);
  const refused = await site.scanned('refused');
  assert.deepEqual([refused.proposals.refused, refused.state], [2, 'idle']);
  assert.match(refused.last_error ?? '', /^line 1 was refused: ADMISSION_REJECT, /);
  assert.equal(refused.last_error_code, 'ADMISSION_REJECT');
});

test('[FANO-10] a module that needs too much memory fails alone', async (t) => {
  const site = moduleSite(t);
  const source =
    'const kept = []; export function scan() { for (;;) kept.push(new Array(1000).fill(kept.length)); }';
  const buffers = `const kept = [];
export function* scan() { for (let at = 0; at < 100; at++) kept.push(Buffer.alloc(2 ** 26)); yield { key: 'all', type: 'work' }; }`;
  const limits = `import { getHeapStatistics } from 'node:v8';
export const scan = () => [{ job_id: 'limit', type: 'work', payload: getHeapStatistics().heap_size_limit }];`;
  await site.start(
    site.file('greedy', source, { memory_mb: 32 }),
    site.file('limited', limits, { memory_mb: 32 }),
    site.file('buffers', buffers, { memory_mb: 32 }),
  );
  for (const name of ['greedy', 'buffers']) {
    const { state, last_error, last_error_code } = await site.scanned(name);
    assert.deepEqual([state, last_error], ['failing', 'it ran out of memory (memory_mb)'], name);
    assert.equal(last_error_code, 'MODULE_OUT_OF_MEMORY');
  }
  const { last_error: why } = await site.scanned('limited');
  assert.equal(why, undefined);
  const { result } = await site.orchestrator.wait('limit');
  const { of: limitBytes } = result as { of: number };
  // The heap of V8 has young objects beside those that the setting counts.
  assert.ok(limitBytes < 256 * 2 ** 20, `${limitBytes} bytes`);
});

/** The module is started so often; `ORCHD_TEST_STARTS=100` for a deep run. */
const STARTS = Number(process.env['ORCHD_TEST_STARTS'] ?? 3);

test('the least memory_mb leaves a module a GiB beside its heap, each time it is started', async (t) => {
  const site = moduleSite(t);
  const buffers = (
    mb: number,
  ) => `const kept = Array.from({ length: ${mb / 64} }, () => Buffer.alloc(2 ** 26));
export const scan = () => [{ key: 'of ' + kept.length, type: 'work' }];`;
  await site.start(
    site.file('fits', buffers(960), { memory_mb: 16 }),
    site.file('exceeds', buffers(1088), { memory_mb: 16 }),
  );
  assert.equal((await site.scanned('exceeds')).last_error_code, 'MODULE_OUT_OF_MEMORY');
  for (let scans = 1; scans <= STARTS; scans++) {
    const { state, last_error } = await site.scanned('fits', scans);
    assert.deepEqual([state, last_error], ['idle', undefined]);
    site.modules.scanNow('fits');
  }
});

test('[FANO-10] a module that goes on failing is scanned later and later', async (t) => {
  const site = moduleSite(t);
  await site.start(site.shell('failing', 'exit 3', { interval_sec: 0.01 }));
  for (let failures = 1; failures <= 4; failures++) {
    const { next_scan_at = 0, last_scan } = await site.scanned('failing', failures);
    // The pauses are 1, 2, 4 and 8 seconds, less at most a fifth.
    const pauseMs = next_scan_at - (last_scan?.ended_at ?? 0);
    assert.ok(pauseMs >= 800 * 2 ** (failures - 1), `${pauseMs} ms after ${failures} failures`);
    site.modules.scanNow('failing');
  }
});

const MANY = Number(process.env['ORCHD_TEST_PROPOSALS'] ?? 6000);

test('a scan that proposes very many is submitted in parts, as far as the queue and its limit allow', async (t) => {
  const site = moduleSite(t);
  site.config = `orchestrator: { queue_capacity: ${2 * MANY}, queue: { max_waiting: ${2 * MANY} } }`;
  const source = `export function* scan() {
  for (let at = 0; at < ${MANY}; at++) yield { key: 'k' + at, type: 'work', not_before: Date.now() + 1e9, payload: 'x'.repeat(100) };
}`;
  await site.start(site.file('many', source, { max_proposals: MANY / 2 }));
  const first = await site.scanned('many');
  assert.deepEqual(
    [first.proposals.accepted, first.last_scan?.is_cut, first.state],
    [MANY / 2, true, 'idle'],
  );
  site.modules.scanNow('many');
  const second = await site.scanned('many', 2);
  assert.equal(
    second.last_scan?.known,
    MANY / 2,
    'known work does not count, so the second scan gets further',
  );
  assert.equal(second.proposals.accepted, MANY);
});

test('when the queue is full, the module waits, and the next scan proposes the rest', async (t) => {
  const site = moduleSite(t);
  const source = `export function* scan() { for (let at = 0; ; at++) yield { key: 'k' + at, type: 'work', not_before: Date.now() + 1e9 }; }`;
  await site.start(site.file('endless', source, { max_proposals: 1_000_000 }));
  const { state, last_error, proposals, last_scan } = await site.scanned('endless');
  assert.deepEqual([state, last_error, last_scan?.is_cut], ['waiting', undefined, true]);
  assert.equal(
    proposals.accepted,
    9000,
    'as many as the queue holds, without the part that is kept for others',
  );
  await site.orchestrator.submit({ job_id: 'of-a-person', type: 'work', not_before: Date.now() + 1e9 });
  assert.ok(proposals.postponed > 0 && proposals.postponed <= 500, 'no more than one part');
  const job = (await site.jobs()).find((id) => id !== 'of-a-person') ?? '';
  for (const id of [job, 'of-a-person']) await site.orchestrator.cancel(id);
  site.modules.scanNow('endless');
  const again = await site.scanned('endless', 2);
  assert.deepEqual([again.state, again.proposals.accepted], ['waiting', 9001]);
});

test('a module sees no variable of the server but the plain ones and its own', async (t) => {
  const site = moduleSite(t);
  process.env['ORCHD_TEST_SECRET'] = 'secret';
  t.after(() => delete process.env['ORCHD_TEST_SECRET']);
  const out = site.path('variables');
  await site.start(site.shell('variables', `env > ${out}`, { env: { OWN: 'mine' } }));
  await site.scanned('variables');
  assert.ok(existsSync(out));
  const names = readFileSync(out, 'utf8')
    .split('\n')
    .map((line) => line.split('=')[0]);
  const known = ['HOME', 'LANG', 'OLDPWD', 'ORCHD_MODULE', 'OWN', 'PATH', 'PWD', 'SHLVL', 'TMPDIR', '_', ''];
  assert.deepEqual(
    names.filter((name) => !known.includes(name ?? '')),
    [],
  );
  assert.ok(names.includes('OWN'));
});
