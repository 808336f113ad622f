/** Looks at the spool after every change of the disk, while the process that makes the changes lives. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Lifecycle } from '../../../src/spool/envelope.ts';
import { FINDINGS } from '../../../src/spool/findings.ts';
import { mayChangeStatus, type SpoolStatus } from '../../../src/spool/states.ts';
import { findingsOf, textOf } from './recovery.ts';
import { JOB, SCENARIOS, type Scenario } from './scenarios.ts';
import { preparedWorld, type SpoolWorld } from './world.ts';

/** Locks that do not tell who has them: each has to from its first instant. */
function namelessLocks({ tree }: SpoolWorld): string[] {
  const locks = [...tree.walk()].map(({ path }) => path).filter((path) => path.endsWith('.lock'));
  return locks.filter((lock) => !isOwner(textAt(tree, `${lock}/owner.json`)));
}

function isOwner(text: string | undefined): boolean {
  const owner = JSON.parse(text || '{}') as Record<string, unknown>;
  const texts = ['hostname', 'boot', 'start', 'namespace', 'nonce', 'actor'];
  return Number.isInteger(owner['pid']) && texts.every((field) => typeof owner[field] === 'string');
}

function textAt(tree: SpoolWorld['tree'], path: string): string | undefined {
  const node = tree.find(path);
  return node && !node.isFolder ? node.content.toString() : undefined;
}

/** The status in the `job.json` of the job, wherever that lies. */
function statusIn({ tree }: SpoolWorld): SpoolStatus | undefined {
  const file = [...tree.walk()].find(({ path }) => path.endsWith(`/${JOB}/job.json`));
  const text = file && textAt(tree, file.path);
  return text === undefined ? undefined : (JSON.parse(text) as Lifecycle).status;
}

/** A job without a `job.json` is queued. */
function illegalChange(from: SpoolStatus = 'queued', to: SpoolStatus = 'queued'): string[] {
  return from === to || mayChangeStatus(from, to) ? [] : [`job.json went from ${from} to ${to}`];
}

/** Lets a scenario make one step after the other; `onChange` is called after each that changed the disk. */
async function walk(
  { prepare, work }: Scenario,
  onChange: (world: SpoolWorld, name: string) => Promise<void>,
): Promise<void> {
  const world = await preparedWorld(prepare);
  const process = world.process();
  await process.begin(work);
  while (!process.isDone) {
    const next = process.waiting[0]?.name ?? '';
    const { changes } = process;
    await process.step();
    if (process.changes > changes) await onChange(world, next);
  }
  assert.equal(process.failure, undefined);
}

for (const scenario of SCENARIOS)
  test(`[FARRO-3] [FARRO-4] at no instant is anything broken: ${scenario.name}`, async () => {
    let status = statusIn(await preparedWorld(scenario.prepare));
    await walk(scenario, async (world, name) => {
      const found = (await findingsOf(world)).filter(({ code }) => FINDINGS[code].is === 'broken');
      const now = statusIn(world);
      const problems = [
        ...found.map(textOf),
        ...world.ledger.problems(),
        ...namelessLocks(world).map((path) => `${path} names no owner`),
        ...illegalChange(status, now),
      ];
      assert.deepEqual(problems, [], `after ${name}\n${world.listing()}`);
      status = now;
    });
  });

/** Without what differs from run to run. */
const plain = (name: string): string =>
  name
    .replaceAll('/spool/', '')
    .replaceAll(JOB, 'J')
    .replaceAll(/agent-[0-9a-f]+/g, 'A')
    .replaceAll(/-\d+\b/g, '-N');

const STATUS = [
  ['open-append in-progress/A/J/history.jsonl'],
  ['write in-progress/A/J/history.jsonl'],
  ['open-exclusive in-progress/A/J/job.json.tmp'],
  ['write in-progress/A/J/job.json.tmp'],
  ['datasync in-progress/A/J/job.json.tmp'],
  ['rename in-progress/A/J/job.json.tmp in-progress/A/J/job.json'],
];

/** By the words of FARRO-4 and FARRO-5, from the lock to its release; syncs of two folders may come in any order. */
const ORDER = [
  ['makeNewFolder tmp/A/work/lock-N'],
  ['open-exclusive tmp/A/work/lock-N/owner.json'],
  ['write tmp/A/work/lock-N/owner.json'],
  ['rename tmp/A/work/lock-N incoming/J.lock'],
  ['rename incoming/J in-progress/A/J'],
  ['syncFolder in-progress/A', 'syncFolder incoming'],
  ...STATUS,
  ['open-exclusive in-progress/A/J/result.json.tmp'],
  ['write in-progress/A/J/result.json.tmp'],
  ['datasync in-progress/A/J/result.json.tmp'],
  ['rename in-progress/A/J/result.json.tmp in-progress/A/J/result.json'],
  ...STATUS,
  ['syncFolder in-progress/A/J'],
  ['rename in-progress/A/J completed/succeeded/J'],
  ['syncFolder completed/succeeded', 'syncFolder in-progress/A'],
  ['rename incoming/J.lock tmp/A/work/old-lock-N'],
];

test('[FARRO-4] [FARRO-5] load-job and commit-job change the disk in the order of the protocol', async () => {
  const scenario = SCENARIOS.find(({ name }) => name === 'run to success') as Scenario;
  const done: string[] = [];
  await walk(scenario, async (_, name) => void done.push(plain(name)));
  const from = done.indexOf('makeNewFolder tmp/A/work/lock-N');
  const to = done.findIndex((name) => name.startsWith('rename incoming/J.lock'));
  const steps: string[][] = [];
  let at = from;
  for (const { length } of ORDER) {
    steps.push(done.slice(at, at + length).sort());
    at += length;
  }
  assert.deepEqual(steps, ORDER);
  assert.equal(at, to + 1, `more is done: ${done.slice(from, to + 1).join('\n')}`);
});
