import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { type ModuleSite, moduleSite, until } from '../../../test/fakes/module-kit.ts';
import { within } from '../../../test/flow/flow-kit.ts';
import { stableHash } from '../../kit/hash.ts';
import { processesBy } from '../../kit/process/identity.ts';

/** The living processes of a module. */
const processesOf = ({ folder }: ModuleSite, name: string): number =>
  [...processesBy('ORCHD_MODULE')].filter(
    ([mark, pids]) => mark.startsWith(`${stableHash(folder).slice(0, 16)}/${name}/`) && pids.length > 0,
  ).length;

const keysIn = (path: string): string[] =>
  existsSync(path)
    ? readFileSync(path, 'utf8')
        .split('\n')
        .filter((line) => line !== '')
    : [];

/** A module with so many jobs, whose handle writes the key of each to a file after `before`. */
const counted = (site: ModuleSite, jobs: number, before = ''): string => `
import { appendFileSync, existsSync, writeFileSync } from 'node:fs';
export function* scan() { for (let at = 0; at < ${jobs}; at++) yield { key: 'k' + at, type: 'work', payload: at }; }
export async function handle(job) {
  ${before}
  appendFileSync(${JSON.stringify(site.path('handled'))}, job.key + '\\n');
}`;

test('the end of each job is handled, with its result, and that is remembered over a restart', async (t) => {
  const site = moduleSite(t);
  const source = counted(
    site,
    300,
    `if (job.state !== 'succeeded' || job.result.of !== Number(job.key.slice(1))) throw new Error(JSON.stringify(job));`,
  );
  const config = site.file('handler', source);
  await site.start(config);
  await until(() => site.view('handler').handled === 300);
  assert.equal(new Set(keysIn(site.path('handled'))).size, 300);
  const ranges = await site.orchestrator.moduleMarks.read('handler');
  assert.ok(ranges.length < 300, `the record is kept short: ${ranges.length} ranges`);
  assert.equal(site.view('handler').handle_error, undefined);
  await site.stop();
  const before = keysIn(site.path('handled')).length;
  await site.start(config);
  const { proposals } = await site.scanned('handler');
  assert.equal(proposals.known, 300);
  await site.orchestrator.submit({
    job_id: 'later',
    key: 'later',
    type: 'work',
    payload: 'x',
    tags: { module: 'handler' },
  });
  await until(
    () => keysIn(site.path('handled')).length > before || site.view('handler').handle_error !== undefined,
  );
  // Its payload is not what this module expects of its own jobs: the end is tried again, and the others were not.
  assert.match(site.view('handler').handle_error ?? '', /^job later: /);
  assert.equal(keysIn(site.path('handled')).length, before);
});

test('the mark is written after the handling of an end, never before', async (t) => {
  const site = moduleSite(t);
  const [begun, done] = [site.path('begun'), site.path('done')].map((path) => JSON.stringify(path));
  const wait = `writeFileSync(${begun}, ''); while (!existsSync(${done})) await new Promise((resolve) => setTimeout(resolve, 10));`;
  await site.start(site.file('slow', counted(site, 1, wait)));
  await until(() => existsSync(site.path('begun')));
  const marked = (): Promise<unknown> => site.orchestrator.moduleMarks.read('slow');
  assert.deepEqual(await marked(), [], 'nothing is marked while handle still runs');
  writeFileSync(site.path('done'), '');
  await until(() => site.view('slow').handled === 1);
  assert.notDeepEqual(await marked(), []);
});

test('what ended while no module ran is handled by the next start', async (t) => {
  const site = moduleSite(t);
  const scanOnly = site.file(
    'late',
    counted(site, 5).replace('export async function handle', 'async function handle'),
  );
  await site.start(scanOnly);
  await site.scanned('late');
  for (const job of await site.jobs()) await site.orchestrator.wait(job);
  await site.stop();
  assert.deepEqual(keysIn(site.path('handled')), []);
  await site.start(site.file('late', counted(site, 5)));
  await until(() => site.view('late').handled === 5);
  assert.deepEqual(keysIn(site.path('handled')).sort(), ['k0', 'k1', 'k2', 'k3', 'k4']);
});

test('an end that cannot be handled is tried again, and the others go first', async (t) => {
  const site = moduleSite(t);
  const repaired = JSON.stringify(site.path('repaired'));
  const source = counted(
    site,
    3,
    `if (job.key === 'k0' && !existsSync(${repaired})) throw new Error('not now');`,
  );
  await site.start(site.file('partly', source));
  await until(() => site.view('partly').handled === 2);
  assert.deepEqual(keysIn(site.path('handled')).sort(), ['k1', 'k2']);
  await until(() => site.view('partly').handle_error !== undefined);
  assert.match(site.view('partly').handle_error ?? '', /: not now$/);
  assert.equal(site.view('partly').handle_error_code, 'MODULE_FAILED');
  writeFileSync(site.path('repaired'), '');
  await until(() => site.view('partly').handled === 3);
  const { handle_error, pending } = site.view('partly');
  assert.deepEqual([handle_error, pending], [undefined, 0]);
});

/** Timers of which those of more than five seconds never fire. */
function withoutLongPauses({ timers, ...env }: ModuleSite['env']): ModuleSite['env'] {
  const after: typeof timers.after = (ms, run) => (ms > 5000 ? () => undefined : timers.after(ms, run));
  return { ...env, timers: { after, soon: (run) => timers.soon(run) } };
}

test('an end that always fails keeps no later end waiting', async (t) => {
  const site = moduleSite(t);
  // The pause after its fourth call lasts for ever.
  site.env = withoutLongPauses(site.env);
  const source = counted(
    site,
    1,
    `if (job.key === 'k0') { appendFileSync(${JSON.stringify(site.path('failed'))}, 'x\\n'); throw new Error('never'); }`,
  );
  await site.start(site.file('poisoned', source));
  await until(() => keysIn(site.path('failed')).length >= 4);
  for (let n = 1; n <= 5; n++) {
    await site.orchestrator.submit({
      job_id: `later-${n}`,
      key: `later-${n}`,
      type: 'work',
      payload: n,
      tags: { module: 'poisoned' },
    });
    await until(() => keysIn(site.path('handled')).length === n);
  }
  assert.ok(keysIn(site.path('failed')).length < 10, 'and is not called again for each of them');
});

test('a handle that hangs, dies or prints harms no other job', async (t) => {
  const site = moduleSite(t);
  const once = (name: string, act: string): string =>
    `if (job.key === '${name}' && !existsSync(${JSON.stringify(site.path(name))})) { writeFileSync(${JSON.stringify(site.path(name))}, ''); ${act} }`;
  const source = counted(
    site,
    4,
    `console.log('said'); ${once('k0', 'while (true);')} ${once('k1', 'process.exit(0);')} ${once('k2', 'process.kill(process.pid, "SIGKILL"); await new Promise(() => {});')}`,
  );
  await site.start(site.file('fragile', source, { timeout_sec: 5 }));
  await until(() => site.view('fragile').handled === 4);
  assert.deepEqual(keysIn(site.path('handled')).sort(), ['k0', 'k1', 'k2', 'k3']);
});

test('handle_argv of a command gets the end on standard input, until it returns 0', async (t) => {
  const site = moduleSite(t);
  const [out, seen] = [site.path('out'), site.path('seen')];
  await site.start(
    site.shell('command', `echo '{"key":"c","type":"work","payload":"p"}'`, {
      handle_argv: ['sh', '-c', `test -e ${seen} && cat >> ${out} || { touch ${seen}; exit 3; }`],
    }),
  );
  await until(() => site.view('command').handled === 1);
  const [line = '', ...more] = keysIn(out);
  assert.deepEqual(more, []);
  const { key, state, result } = JSON.parse(line) as { key: string; state: string; result: unknown };
  assert.deepEqual([key, state, result], ['c', 'succeeded', { of: 'p' }]);
});

test('what handle has left running does not hold up a stop, and ends with the time of the module', async (t) => {
  const site = moduleSite(t);
  // It blocks its process as soon as handle has returned.
  const spin = 'setTimeout(() => { while (true); }, 0);';
  await site.start(site.file('spins', counted(site, 1, spin), { timeout_sec: 86_400 }));
  await until(() => site.view('spins').handled === 1);
  await within(site.modules.stop());
  assert.equal(processesOf(site, 'spins'), 0);
});

test('a file without handle that keeps its process busy is ended after its time', async (t) => {
  const site = moduleSite(t);
  const source = `import { writeFileSync } from 'node:fs';
export const scan = () => [{ key: 'k', type: 'work', payload: 1 }];
if (process.argv[2] === 'handle') { writeFileSync(${JSON.stringify(site.path('loaded'))}, ''); setTimeout(() => { while (true); }, 0); }`;
  await site.start(site.file('busy', source, { timeout_sec: 5 }));
  await until(() => existsSync(site.path('loaded')));
  await until(() => processesOf(site, 'busy') === 0);
});
