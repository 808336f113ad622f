/**
 * The same workload as the kernel sees it: order, and what the brain makes of a disk that fails. With CRASH_ALL
 * set every sync fails once, else a choice of them.
 */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Children, eachAtOnce } from './children.ts';
import { type Folders, foldersOf, makeFolders } from './folders.ts';
import { checkOrder } from './order-rules.ts';
import { checkCase, recoverFully } from './recovering.ts';
import { SCRIPTS } from './script.ts';
import {
  type Call,
  eventsOf,
  fileOf,
  readCalls,
  runUnderStrace,
  straceMissing,
  straceOutput,
} from './strace.ts';
import { FAILED, type ToldFailure } from './workload-main.ts';

const missing = straceMissing();
const skip = missing !== undefined && process.env['CI'] === undefined ? missing : false;
const scratch = fs.mkdtempSync(join(tmpdir(), 'orchd-strace-'));
let children: Children;

before(() => {
  if (!skip) children = new Children(scratch);
});
after(() => fs.rmSync(scratch, { recursive: true, force: true }));

const caseOf = (name: string): Folders => makeFolders(foldersOf(join(scratch, name)));

/** The files that were synced, in order: what a sync can fail at. */
function syncedFiles(folders: Folders): string[] {
  return [...readCalls(straceOutput(folders))]
    .filter(({ name, result }) => name === 'fdatasync' && result !== undefined)
    .map(({ args }) => fileOf(args))
    .map((path) => path.slice(folders.data.length + 1));
}

describe('strace', { skip }, () => {
  let synced: string[] = [];

  test('strace is there', () => assert.equal(missing, undefined));

  test('the system calls keep the rules of order', async () => {
    const folders = caseOf('order');
    const end = await runUnderStrace(children.command(folders), straceOutput(folders), {
      CRASH_PACE: 'real',
    });
    assert.equal(end.code, 0, end.stderr);
    const events = eventsOf(straceOutput(folders), folders);
    const { problems, counts } = checkOrder(events);
    console.log(`# ${events.length} events from system calls: ${JSON.stringify(counts)}`);
    assert.deepEqual(problems, []);
    for (const [what, count] of Object.entries(counts)) assert.ok(count > 0, `no ${what} was seen`);
    assert.deepEqual((await checkCase(folders, 'real')).problems, []);
    synced = syncedFiles(folders);
  });

  test('a sync that fails stops the brain for good, and nothing acknowledged is lost', async () => {
    assert.ok(synced.length > 0, 'no run has shown which syncs there are');
    const chosen = chooseSyncs(synced);
    const problems: string[] = [];
    const files: string[] = [];
    await eachAtOnce(chosen, async (n) => {
      const failed = await failSync(n);
      files.push(failed.file);
      for (const problem of failed.problems) problems.push(`sync ${n}, ${failed.file}: ${problem}`);
    });
    const hit = files.filter((file) => file !== '');
    console.log(`# EIO at ${hit.length} of ${synced.length} syncs: ${hit.join(' ')}`);
    assert.deepEqual(problems, []);
  });
});

/** The first of every kind of file and some more; with CRASH_ALL all of them. */
function chooseSyncs(files: readonly string[]): number[] {
  const kinds = new Set<string>();
  const chosen: number[] = [];
  for (const [index, file] of files.entries()) {
    const kind = file.replaceAll(/\d+/g, 'N');
    if (process.env['CRASH_ALL'] !== undefined || !kinds.has(kind) || index % 5 === 0) chosen.push(index + 1);
    kinds.add(kind);
  }
  return chosen;
}

async function failSync(n: number): Promise<{ file: string; problems: string[] }> {
  const folders = caseOf(`eio-${n}`);
  const output = straceOutput(folders);
  const inject = [`fdatasync:error=EIO:when=${n}`];
  const end = await runUnderStrace(children.command(folders), output, { CRASH_PACE: 'real' }, inject);
  const calls = [...readCalls(output)];
  const failedAt = calls.findIndex(({ result }) => result?.includes('INJECTED'));
  // The spare segment is prepared beside the log, so the n-th sync may hit another file: the trace says which.
  const path = fileOf(calls[failedAt]?.args ?? '');
  const file = path.slice(folders.data.length + 1);
  // The last one of all may not come in every run.
  if (failedAt < 0 && end.code === 0) return { file: '', problems: [] };
  const later = calls.slice(failedAt + 1);
  const nextBrain = later.findIndex(
    ({ name, args }) => name === 'openat' && args.includes(`${folders.data}/lock"`),
  );
  const rest = nextBrain < 0 ? later : later.slice(0, nextBrain);
  // A checkpoint that cannot be written only makes the log longer.
  const goesOn = file.startsWith('checkpoint');
  const problems = checkUntouched(rest, path);
  // A spare is made beside the log: what the log could sync meanwhile may still be told.
  if (!goesOn && file !== 'log/spare') problems.push(...checkSilence(rest, folders));
  // Exit code 0: no caller waited when the brain stopped, so the next brain went on, or the script was over.
  if (end.code === FAILED) problems.push(...checkTold(end.stderr, goesOn));
  else if (end.code !== 0) problems.push(`ended with ${end.code ?? end.signal} ${end.stderr}`);
  const recovery = await recoverFully(folders, Date.now() + 1, { pace: 'real', script: SCRIPTS.real });
  return { file, problems: [...problems, ...recovery.problems] };
}

/** A brain that was running has stopped for good, unless it could go on; one that could not start says so and stops. */
function checkTold(stderr: string, goesOn: boolean): string[] {
  const { code, stopped, next } = JSON.parse(stderr.trim().split('\n').at(-1) as string) as ToldFailure;
  const isRight = goesOn
    ? next === 'taken'
    : stopped === 'SHUTTING_DOWN'
      ? code === 'STORE_FAILED' && next === 'SHUTTING_DOWN'
      : stopped === 'STORE_FAILED' && next === 'STORE_FAILED';
  return isRight ? [] : [`callers were told ${JSON.stringify({ code, stopped, next })}`];
}

/** A file whose sync has failed is not trusted with anything again. */
function checkUntouched(later: readonly Call[], failed: string): string[] {
  return later
    .filter(({ name, args }) => fileOf(args) === failed && /^(pwrite64|write|fdatasync|fsync)$/.test(name))
    .map(({ name, args }) => `${name}(${args.slice(0, 80)} after the failed sync`);
}

/** Nobody is told anything about a job, and nothing is started. */
function checkSilence(later: readonly Call[], folders: Folders): string[] {
  const told = ({ name, args }: Call): boolean => {
    const file = fileOf(args);
    if (name !== 'write') return false;
    if (file === folders.acks) return args.includes('label');
    return file.startsWith(folders.ledger) && /start|ack/.test(args);
  };
  return later.filter(told).map(({ args }) => `written after the failed sync: ${args.slice(0, 120)}`);
}
