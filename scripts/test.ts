/**
 * `npm test [part of a path …]`: every test of the repository, each file in a process of its own.
 * One run of Node's test runner, so that its closing lines count all tests.
 */
import { spawn } from 'node:child_process';
import { globSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { GIVEN, type OwnServer, ownMariaDb } from '../test/fakes/mariadb.ts';

const OLDEST_NODE = 24;
/** Simulation and crash tests keep a core busy each; more at once only makes them slower. */
const CONCURRENCY = 2;

const root = join(import.meta.dirname, '..');
const localBin = join(root, 'node_modules', '.bin');

/** Short tests first: a broken unit shows before the long ones start. */
const GROUPS = [
  'src/**/*.test.ts',
  'test/*.test.ts',
  'test/golden/*.test.ts',
  'test/flow/**/*.test.ts',
  'test/sim/**/*.test.ts',
  'test/crash/**/*.test.ts',
];

function testFiles(filters: readonly string[]): string[] {
  const all = GROUPS.flatMap((pattern) => globSync(pattern, { cwd: root }).sort());
  return all.filter((path) => filters.length === 0 || filters.some((filter) => path.includes(filter)));
}

/** Where tests keep data in a database; one server for all of them. */
const ON_MARIADB = ['src/stores/', 'test/flow/', 'test/crash/'];

async function sharedServer(files: readonly string[]): Promise<OwnServer | undefined> {
  const isNeeded = files.some((path) => ON_MARIADB.some((folder) => path.startsWith(folder)));
  if (!isNeeded || process.env[GIVEN] !== undefined) return undefined;
  try {
    return await ownMariaDb();
  } catch (error) {
    // Those who need it will say the same when they fail; the others go on.
    console.error((error as Error).message);
    return undefined;
  }
}

function nodeToUse(): string {
  const major = Number(process.versions.node.split('.')[0]);
  return major < OLDEST_NODE ? join(localBin, 'node') : process.execPath;
}

async function run(files: readonly string[]): Promise<void> {
  const server = await sharedServer(files);
  // A test that fails may leave something running: its file must end all the same.
  const flags = ['--test', '--test-reporter=spec', '--test-force-exit', `--test-concurrency=${CONCURRENCY}`];
  const args = [...flags, ...files];
  const PATH = [localBin, process.env['PATH']].join(delimiter);
  const env = { ...process.env, PATH, ...(server && { [GIVEN]: server.url }) };
  const child = spawn(nodeToUse(), args, { cwd: root, stdio: 'inherit', env });
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => child.kill(signal));
  child.on('error', (error) => {
    console.error(`could not start ${nodeToUse()}: ${error.message}`);
    process.exitCode = 1;
    void server?.stop();
  });
  // A runner that a signal ended has no exit code, and has not passed.
  child.on('exit', (code) => {
    process.exitCode = code ?? 1;
    void server?.stop();
  });
}

const filters = process.argv.slice(2);
const files = testFiles(filters);
if (files.length === 0) {
  // Without files the runner would look for some by itself.
  console.error(`no test file matches ${filters.join(' ')}`);
  process.exitCode = 1;
} else {
  await run(files);
}
