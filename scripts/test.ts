/**
 * `npm test [part of a path …]`: every test of the repository, units several to a process (test-batches.ts), each other
 * file in a process of its own.
 * `npm run test:fast`: only the fast tier, see isFast.
 * `--again`: a file that has failed is run once more, with nothing beside it, and has passed if it passes then.
 */
import { spawn } from 'node:child_process';
import { globSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, delimiter, join, relative } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { memoryFolder } from '../test/crash/folders.ts';
import { KEPT } from '../test/fakes/kept-folder.ts';
import { GIVEN, type OwnServer, ownMariaDb } from '../test/fakes/mariadb.ts';
import { batchesOf } from './test-batches.ts';

const OLDEST_NODE = 24;
/** On two cores: of six files at once most wait, for a process, a timer or a database. */
const CONCURRENCY = 6;
/** A test that sets no timeout of its own fails after this. */
const TEST_TIMEOUT_MS = 600_000;

const root = join(import.meta.dirname, '..');
const localBin = join(root, 'node_modules', '.bin');

/** The files that take longest. They begin right after the units, so that the last files are short and no core idles. */
const LONGEST = [
  'test/crash/{kill,planted,agent-run,budget,kill-mariadb,spool-brain,gateway-table,power-loss}.test.ts',
  'test/flow/{cli-up,ai-sdk,cli-run,lines,reload,batch-kill,cluster-machines,dispatch,migrate,sticky}.test.ts',
  'test/flow/{cli-chat,cli-replay,file-modes,damage-log}.test.ts',
  'src/{stores,backends}/conformance/*.test.ts',
  'test/package.test.ts',
];

/** In the order of this list: a broken unit shows first. */
const GROUPS = [
  'test/architecture.test.ts',
  ...LONGEST,
  'src/**/*.test.ts',
  'test/crash/**/*.test.ts',
  'test/sim/**/*.test.ts',
  'test/flow/**/*.test.ts',
  'test/golden/*.test.ts',
  'test/*.test.ts',
];

/** Tests under src that need a database, or start and kill many processes. */
const SLOW_FOLDERS = [
  'src/backends/conformance/',
  'src/backends/local/command/',
  'src/backends/stream/',
  'src/stores/conformance/',
  'src/stores/mariadb/',
];

/** The fast tier: the tests beside the code, without SLOW_FOLDERS, and the rules of the architecture. */
function isFast(path: string): boolean {
  if (path === 'test/architecture.test.ts') return true;
  return path.startsWith('src/') && !SLOW_FOLDERS.some((folder) => path.startsWith(folder));
}

function testFiles(filters: readonly string[], onlyFast: boolean): string[] {
  const all = new Set(GROUPS.flatMap((pattern) => globSync(pattern, { cwd: root }).sort()));
  return [...all].filter(
    (path) =>
      (!onlyFast || isFast(path)) &&
      (filters.length === 0 || filters.some((filter) => path.includes(filter))),
  );
}

/** Where tests keep data in a database; one server for all of them, in memory: none of them cuts its power. */
const ON_MARIADB = ['src/stores/', 'test/flow/', 'test/crash/'];

async function sharedServer(files: readonly string[]): Promise<OwnServer | undefined> {
  const isNeeded = files.some(
    (path) => !isFast(path) && ON_MARIADB.some((folder) => path.startsWith(folder)),
  );
  if (!isNeeded || process.env[GIVEN] !== undefined) return undefined;
  try {
    return await ownMariaDb(memoryFolder());
  } catch (error) {
    // Those who need it will say the same when they fail; the others go on.
    console.error((error as Error).message);
    return undefined;
  }
}

interface Run {
  readonly concurrency: number;
  /** Where the entries of batches are written. */
  readonly folder: string;
  readonly signal: AbortSignal;
}

async function runTests(files: readonly string[], isRepeated: boolean): Promise<void> {
  const server = await sharedServer(files);
  if (server) process.env[GIVEN] = server.url;
  // In memory, where a sync costs nothing: whoever cuts the power makes a disk of its own.
  const temporary = mkdtempSync(join(memoryFolder(), 'orchd-tests-'));
  process.env[KEPT] = tmpdir();
  process.env['TMPDIR'] = temporary;
  process.env['PATH'] = [localBin, process.env['PATH']].join(delimiter);
  // Test files load much the same code: each module is compiled once per run instead of once per process.
  process.env['NODE_COMPILE_CACHE'] = join(temporary, 'compiled');
  // Servers that tests start as processes compare their answers too.
  const checkAnswers = pathToFileURL(join(root, 'test', 'check-answers.ts')).href;
  process.env['NODE_OPTIONS'] = `${process.env['NODE_OPTIONS'] ?? ''} --import=${checkAnswers}`;
  const interrupted = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => interrupted.abort());
  const run = { concurrency: CONCURRENCY, folder: join(temporary, 'batches'), signal: interrupted.signal };
  let failed = await runOnce(files, run);
  if (isRepeated && failed.length > 0 && !interrupted.signal.aborted) failed = await runAgain(failed, run);
  if (failed.length > 0 || interrupted.signal.aborted) process.exitCode = 1;
  await server?.stop();
  // Processes of an interrupted run may still write into it.
  rmSync(temporary, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
}

/** Each file alone, one after the other. Returns the files that have failed a second time. */
async function runAgain(files: readonly string[], run: Run): Promise<string[]> {
  console.log(`\nFailed, and run once more with nothing beside it:\n${lines(files)}`);
  const folder = `${run.folder}-again`;
  const failed = await runOnce(files, { ...run, concurrency: 1, folder });
  const passed = files.filter((path) => !failed.includes(path));
  if (passed.length > 0)
    console.log(`\nHas failed beside others and passed alone; it or orchd has a fault:\n${lines(passed)}`);
  return failed;
}

const lines = (paths: readonly string[]): string => paths.map((path) => `  ${path}`).join('\n');

/** Returns the files in which something has failed: of a batch of units all files. */
async function runOnce(files: readonly string[], { concurrency, folder, signal }: Run): Promise<string[]> {
  const isUnit = (path: string): boolean => path.startsWith('src/') && isFast(path);
  const { alone, batches } = batchesOf(root, files, isUnit, folder);
  const results = run({
    files: [...batches.map(({ entry }) => entry), ...alone.map((path) => join(root, path))],
    cwd: root,
    concurrency,
    timeout: TEST_TIMEOUT_MS,
    execArgv: ['--import', join(root, 'test', 'exit-watchdog.ts')],
    signal,
  });
  const pathsOf = new Map(batches.map(({ entry, paths }) => [entry, paths]));
  const failed = new Set<string>();
  results.on('test:fail', ({ name, file = name }) => {
    for (const path of pathsOf.get(file) ?? [relative(root, file)]) failed.add(path);
    // The process as a whole has failed, such as one that does not end.
    const paths = pathsOf.get(name);
    if (paths) console.error(`${basename(name)} has run ${paths.join(' ')}`);
  });
  const times: FileTime[] = [];
  results.on('test:summary', ({ file, duration_ms: ms }) => {
    if (file !== undefined && !pathsOf.has(file)) times.push({ path: relative(root, file), ms });
  });
  results.on('test:complete', ({ file, name, details: { type, duration_ms: ms } }) => {
    if (file !== undefined && pathsOf.has(file) && type === 'suite') times.push({ path: name, ms });
  });
  await pipeline(results, new spec(), process.stdout, { end: false });
  if (files.length > SLOWEST_SHOWN) showSlowest(times);
  return [...failed];
}

interface FileTime {
  readonly path: string;
  readonly ms: number;
}

/** Files that are listed with their times at the end of a run. */
const SLOWEST_SHOWN = 20;

function showSlowest(times: FileTime[]): void {
  const sum = times.reduce((all, { ms }) => all + ms, 0);
  console.log(`\n${times.length} files took ${seconds(sum)} in all; the slowest:`);
  times.sort((a, b) => b.ms - a.ms);
  for (const { path, ms } of times.slice(0, SLOWEST_SHOWN))
    console.log(`${seconds(ms).padStart(8)}  ${path}`);
}

const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`;

/** Under a Node that is too old, the same again under the one of the checkout. */
function runUnderLocalNode(): void {
  const child = spawn(join(localBin, 'node'), process.argv.slice(1), { stdio: 'inherit' });
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => child.kill(signal));
  child.on('exit', (code) => {
    // A run that a signal ended has no exit code, and has not passed.
    process.exitCode = code ?? 1;
  });
}

const { values, positionals: filters } = parseArgs({
  options: { fast: { type: 'boolean', default: false }, again: { type: 'boolean', default: false } },
  allowPositionals: true,
});
const files = testFiles(filters, values.fast);
if (files.length === 0) {
  console.error(`no test file matches ${filters.join(' ')}`);
  process.exitCode = 1;
} else if (Number(process.versions.node.split('.')[0]) < OLDEST_NODE) {
  runUnderLocalNode();
} else {
  await runTests(files, values.again);
}
