/** Modules of a real server: kills, leftovers, routes, commands and the examples. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { processesBy } from '../../src/kit/process/identity.ts';
import type { ModuleView } from '../../src/model/http/modules.ts';
import { until } from '../fakes/module-kit.ts';
import { jsonLines, orchd } from './cli-process.ts';
import { type ServerProcess, serve, testFolder } from './server-process.ts';

const EXAMPLES = join(import.meta.dirname, '..', '..', 'examples');

const moduleOf = async ({ url }: ServerProcess, name: string): Promise<ModuleView> => {
  const { modules } = (await (await fetch(`${url}/v2/modules`)).json()) as { modules: ModuleView[] };
  return modules.find((each) => each.name === name) as ModuleView;
};

const ECHO = {
  commands: [{ name: 'echo', types: { echo: { argv: ['cat'] } } }],
};

const linesIn = (path: string): string[] =>
  existsSync(path)
    ? readFileSync(path, 'utf8')
        .split('\n')
        .filter((line) => line !== '')
    : [];

const living = (name: string): number =>
  [...processesBy('ORCHD_MODULE')].filter(([mark]) => mark.includes(`/${name}/`)).flatMap(([, pids]) => pids)
    .length;

/** A module with one job; `effect` stands for the handling, and `moment` is when the brain is killed for the first time. */
const killing = (folder: string, moment: 'before' | 'after'): string => {
  const kill = `if (!existsSync(killed)) { writeFileSync(killed, ''); process.kill(process.ppid, 'SIGKILL'); await new Promise(() => {}); }`;
  return `import { appendFileSync, existsSync, writeFileSync } from 'node:fs';
const killed = ${JSON.stringify(join(folder, 'killed'))};
export const scan = () => [{ key: 'only', type: 'echo', payload: 'x' }];
export async function handle(job) {
  ${moment === 'before' ? kill : ''}
  appendFileSync(${JSON.stringify(join(folder, 'handled'))}, job.key + '\\n');
  ${moment === 'after' ? kill : ''}
}`;
};

for (const moment of ['before', 'after'] as const)
  test(`a brain that is killed ${moment} the handling and before its mark handles the end again`, async (t) => {
    const folder = testFolder(t);
    const file = join(folder, 'killer.mjs');
    writeFileSync(file, killing(folder, moment));
    const config = { backends: ECHO, modules: [{ name: `killer-${moment}`, file, interval_sec: 0.2 }] };
    const data = join(folder, 'data');
    const first = await serve(t, { data, config });
    await first.ended;
    assert.ok(existsSync(join(folder, 'killed')));
    assert.deepEqual(linesIn(join(folder, 'handled')), moment === 'before' ? [] : ['only']);
    const second = await serve(t, { data, config });
    const module = await until(async () => {
      const view = await moduleOf(second, `killer-${moment}`);
      return view.handled === 1 && view.scans > 1 && view;
    });
    assert.deepEqual(linesIn(join(folder, 'handled')), moment === 'before' ? ['only'] : ['only', 'only']);
    assert.deepEqual(
      [module.proposals.accepted, module.proposals.refused],
      [0, 0],
      'and no job was made twice',
    );
  });

test('a file module that spins ends with its brain, even if that is killed', async (t) => {
  const folder = testFolder(t);
  const file = join(folder, 'spins.mjs');
  writeFileSync(file, `import { spawn } from 'node:child_process'; spawn('sleep', ['600']); while (true);`);
  const name = `spins-${process.pid}`;
  const server = await serve(t, { data: join(folder, 'data'), config: { modules: [{ name, file }] } });
  await until(() => living(name) >= 2);
  await server.kill();
  await until(() => living(name) === 0);
});

test('commands that a killed brain has left behind are ended by the next start, which may not know the module', async (t) => {
  const folder = testFolder(t);
  const data = join(folder, 'data');
  const [name, removed] = [`left-${process.pid}`, `removed-${process.pid}`];
  const argv = ['sh', '-c', 'sleep 600 & sleep 600'];
  const modules = [name, removed].map((each) => ({ name: each, argv }));
  const first = await serve(t, { data, config: { modules } });
  await until(() => living(name) >= 3 && living(removed) >= 3);
  await first.kill();
  assert.ok(living(name) >= 2 && living(removed) >= 2);
  const second = await serve(t, { data, config: { modules: [{ name, argv: ['true'] }] } });
  await until(async () => (await moduleOf(second, name)).scans > 0);
  assert.deepEqual([living(name), living(removed)], [0, 0]);
});

test('[FANO-10] modules and the delay of the event loop are shown: routes, command line and metrics', async (t) => {
  const folder = testFolder(t);
  const file = join(folder, 'finder.mjs');
  writeFileSync(file, `export const scan = () => [{ key: 'k', type: 'echo', payload: 1 }];`);
  const spins = join(folder, 'spins.mjs');
  writeFileSync(spins, 'while (true);');
  const config = {
    backends: ECHO,
    modules: [
      { name: 'finder', file, interval_sec: 3600 },
      { name: 'spins', file: spins },
    ],
  };
  const server = await serve(t, { data: join(folder, 'data'), config });
  await until(async () => (await moduleOf(server, 'finder')).scans === 1);
  const scan = await fetch(`${server.url}/v2/modules/finder/scan`, { method: 'POST' });
  assert.equal(scan.status, 202);
  await until(async () => (await moduleOf(server, 'finder')).scans === 2);
  const none = await fetch(`${server.url}/v2/modules/nobody/scan`, { method: 'POST' });
  assert.equal(none.status, 404);
  const { out } = await orchd(['modules', '--url', server.url]);
  assert.match(out, /^MODULE +STATE +NEXT/);
  assert.match(out, /^finder +idle +in \d+ min +1 +1 +0 +0 +-$/m);
  assert.match(out, /^spins +scanning +- +0/m);
  const listed = jsonLines((await orchd(['modules', '--json', '--url', server.url])).out);
  assert.deepEqual(
    listed.map(({ name }) => name),
    ['finder', 'spins'],
  );
  const metrics = await (await fetch(`${server.url}/metrics`)).text();
  assert.match(metrics, /orchd_module_proposals_total\{module="finder",outcome="accepted"\} 1\n/);
  assert.match(metrics, /orchd_module_scans_total\{module="finder",outcome="ok"\} 2\n/);
  const delays = [...metrics.matchAll(/orchd_event_loop_delay_seconds\{quantile="(\S+)"\} (\S+)\n/g)];
  assert.deepEqual(
    delays.map(([, quantile, seconds]) => [quantile, Number.isFinite(Number(seconds))]),
    [
      ['0.5', true],
      ['0.99', true],
      ['1', true],
    ],
  );
});

test('[FANO-10] heartbeats come while modules spin and block', async (t) => {
  const folder = testFolder(t);
  const file = join(folder, 'spins.mjs');
  writeFileSync(file, 'while (true);');
  const names = ['one', 'two', 'three'];
  const config = {
    backends: ECHO,
    server: { heartbeat_ms: 50 },
    modules: names.map((name) => ({ name, file, interval_sec: 0.01 })),
  };
  const server = await serve(t, { data: join(folder, 'data'), config });
  const body = { job_id: 'waits', type: 'echo', payload: 1, not_before: Date.now() + 1e9 };
  const headers = { 'content-type': 'application/json' };
  await fetch(`${server.url}/v2/tasks`, { method: 'POST', headers, body: JSON.stringify(body) });
  const abort = new AbortController();
  const { body: events } = await fetch(`${server.url}/v2/tasks/waits/events`, { signal: abort.signal });
  let heard = '';
  for await (const piece of events!.pipeThrough(new TextDecoderStream())) {
    heard += piece;
    if (heard.split('\n').filter((line) => line.startsWith(':')).length >= 20) break;
  }
  abort.abort();
  for (const name of names) {
    const { state, scans } = await moduleOf(server, name);
    assert.deepEqual([state, scans], ['scanning', 0], 'they have blocked all the while');
  }
});

test('a module that cannot be used is refused at the start, with its place in the configuration', async (t) => {
  const folder = testFolder(t);
  for (const [modules, message] of [
    [[{ name: 'a' }], /needs either "file" or "argv"/],
    [[{ name: 'a', file: 'x', argv: ['y'] }], /needs either "file" or "argv"/],
    [
      [
        { name: 'a', file: 'x' },
        { name: 'a', file: 'y' },
      ],
      /two modules are called "a"/,
    ],
    [[{ name: 'a', file: 'x', handle_argv: ['y'] }], /exports handle\(\) instead/],
    [[{ name: 'a', argv: ['x'], memory_mb: 64 }], /is for files/],
    [[{ name: 'a', argv: ['x'], every: 3 }], /every/],
  ] as const) {
    const file = join(folder, 'config.yaml');
    writeFileSync(file, JSON.stringify({ modules }));
    const { code, err } = await orchd([
      'up',
      '--port',
      '0',
      '--data',
      join(folder, 'data'),
      '--config',
      file,
    ]);
    assert.notEqual(code, 0);
    assert.match(err, message);
  }
});

test('[FANO-10] the examples run: questions get answers beside them, functions become jobs', async (t) => {
  const folder = testFolder(t);
  const questions = join(folder, 'questions');
  const source = join(folder, 'source');
  mkdirSync(questions);
  mkdirSync(source);
  writeFileSync(join(questions, 'one.question'), 'What is one?');
  writeFileSync(join(questions, 'two.question'), 'What is two?');
  const documented = '/** Says hello. */\nexport function hello() {\n  return 1;\n}\n';
  writeFileSync(join(source, 'a.ts'), `${documented}\nexport function bare() {\n  return 2;\n}\n`);
  const config = {
    modules: [
      {
        name: 'questions',
        file: join(EXAMPLES, 'module-questions.ts'),
        env: { QUESTIONS: questions },
        interval_sec: 0.5,
      },
      {
        name: 'documenter',
        file: join(EXAMPLES, 'module-undocumented-functions.ts'),
        env: { SOURCE: source },
        interval_sec: 0.5,
      },
    ],
  };
  const server = await serve(t, { data: join(folder, 'data'), config });
  await until(() => readdirSync(questions).filter((name) => name.endsWith('.answer')).length === 2);
  assert.ok(readFileSync(join(questions, 'one.answer'), 'utf8').length > 1);
  const documenter = await until(async () => {
    const view = await moduleOf(server, 'documenter');
    return view.scans >= 2 && view;
  });
  assert.deepEqual([documenter.proposals.accepted, documenter.last_error], [1, undefined]);
  const { jobs } = (await (await fetch(`${server.url}/v2/tasks?tag=module=documenter`)).json()) as {
    jobs: { key: string }[];
  };
  assert.match(jobs[0]?.key ?? '', /^a\.ts:bare:[0-9a-f]{16}$/);
});
