import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fakeTerminal } from '../../test/fakes/terminal.ts';
import { ClientError } from '../client/client.ts';
import type { Status } from '../model/http/status.ts';
import { changeKey, EndRate, type Snapshot, SnapshotReader } from './snapshot.ts';
import { watchStatus } from './watch-status.ts';

const NOBODY = { node: null, leader: null, address: null, main_loop_silent_ms: null, lock_name: null };
const LEADER = { ...NOBODY, is_leader: true, epoch: 1 };

const statusOf = (fields: Partial<Status> = {}): Status =>
  ({
    version: '1.2.3',
    status: 'ok',
    disk_full: false,
    paused: false,
    uptime_ms: 60_000,
    now: 100_000,
    store: 'journal',
    leader: LEADER,
    queue: { capacity: 10, policy: 'reject', ready: { interactive: 0, batch: 0 } },
    jobs: { queued: 0, claimed: 0, running: 0, waiting: 0, stale: 0 },
    running: [],
    held: [],
    backends: [],
    models: [],
    limits: [],
    ...fields,
  }) as unknown as Status;

const snapshotOf = (fields: Partial<Status> = {}): Snapshot => ({
  status: statusOf(fields),
  pools: [],
  dead: { jobs: [], more: false },
});

const unreachable = (): ClientError =>
  new ClientError(0, { code: 'UNREACHABLE', message: 'nothing answers at http://b', retriable: true });

interface Watched {
  readonly out: string;
  readonly err: string;
}

/** Watches a brain that answers with these one after another; after the last one the signal comes. */
async function watched(
  answers: readonly (Snapshot | Error)[],
  { isTTY = false, asJson = false } = {},
): Promise<Watched> {
  const { terminal, written } = fakeTerminal({ isTTY, noColour: true });
  const [first, ...rest] = answers;
  const interrupt = new AbortController();
  await watchStatus(
    {
      first: first as Snapshot,
      read: async () => {
        const next = rest.shift();
        if (next instanceof Error) throw next;
        return next as Snapshot;
      },
      terminal,
      url: 'http://b',
      asJson,
      pause: async () => {
        if (rest.length === 0) interrupt.abort();
      },
    },
    interrupt.signal,
  );
  return written;
}

test('without a terminal a block is printed per change: clocks and counters that run are no change', async () => {
  const changed = snapshotOf({
    uptime_ms: 62_000,
    jobs: { queued: 3, claimed: 0, running: 0, waiting: 0, stale: 0 },
  });
  const later = snapshotOf({ uptime_ms: 61_000, now: 101_000 });
  const { out, err } = await watched([snapshotOf(), later, later, changed]);
  assert.equal(out.match(/^orchd 1\.2\.3 at http:\/\/b: ok/gm)?.length, 2);
  assert.ok(!out.includes('\u001b'));
  assert.equal(err, '');
  const json = await watched([snapshotOf(), later, changed], { asJson: true });
  assert.deepEqual(
    json.out
      .trim()
      .split('\n')
      .map((line) => (JSON.parse(line) as Snapshot).status.jobs.queued),
    [0, 3],
  );
});

test('a brain that restarts is waited for, and a line says so once', async () => {
  const restarted = snapshotOf({ uptime_ms: 2000, leader: { ...LEADER, epoch: 2 } });
  const { err } = await watched([snapshotOf(), unreachable(), unreachable(), restarted, restarted]);
  assert.deepEqual(err.trim().split('\n'), [
    'orchd: nothing answers at http://b; trying again',
    'orchd: the brain answers again; it started 2.0 s ago',
  ]);
  const quick = await watched([snapshotOf(), restarted]);
  assert.match(quick.err, /it started 2\.0 s ago/, 'also if no request has met the gap');
  const cut = await watched([snapshotOf(), unreachable(), snapshotOf({ uptime_ms: 62_000 })]);
  assert.match(cut.err, /the brain answers again; it did not restart/);
});

test('an error that would come again ends the watch', async () => {
  const refused = new ClientError(401, { code: 'UNAUTHORIZED', message: 'no', retriable: false });
  await assert.rejects(watched([snapshotOf(), refused]), { code: 'UNAUTHORIZED' });
});

test('on a terminal the block is drawn over in one piece, shrinks, is cut to the screen, and leaves nothing behind', async () => {
  const tall = snapshotOf({
    backends: Array.from({ length: 8 }, (_, n) => ({
      name: `b${n}`,
      kind: `k\u001b[2J${'k'.repeat(100)}`,
      slots: 1,
      up: true,
      types: ['t'],
      models: null,
      labels: {},
      keeps_results: true,
    })),
  });
  const { out } = await watched([snapshotOf(), tall, unreachable(), snapshotOf()], { isTTY: true });
  // Clearing the screen would flicker, and a mode such as a hidden cursor would have to be restored.
  for (const sequence of ['\u001b[2J', '\u001b[H', '\u001b[?']) assert.ok(!out.includes(sequence));
  const frames = out.split('\u001b[J');
  assert.equal(frames.pop(), '\r\u001b[K', 'the line with ^C is clean');
  assert.equal(frames.length, 4);
  const [first, second, third] = frames.map((frame) => frame.split('\n').slice(0, -1));
  assert.ok(second?.[0]?.startsWith(`\r\u001b[${first?.length}A`), 'the second begins where the first did');
  assert.ok(third?.[0]?.startsWith(`\r\u001b[${second?.length}Anothing answers at http://b; trying again`));
  for (const lines of [first, second, third]) {
    assert.ok(lines && lines.length < 24, 'lower than the screen');
    for (const line of lines) {
      assert.ok(line.endsWith('\u001b[K'));
      assert.ok(
        line
          .split('\u001b[')
          .map((part, at) => (at === 0 ? part : part.slice(1)))
          .join('').length <= 82,
        line,
      );
    }
  }
});

test('what is a change', () => {
  const key = changeKey(snapshotOf());
  assert.equal(changeKey(snapshotOf({ uptime_ms: 1, now: 2 })), key);
  assert.notEqual(changeKey(snapshotOf({ disk_full: true })), key);
});

test('the rate is that of the last ten seconds, and starts anew with a new process', () => {
  const rate = new EndRate();
  const at = (uptime_ms: number, succeeded: number, epoch = 1): number | undefined =>
    rate.add(
      statusOf({
        uptime_ms,
        leader: { ...LEADER, epoch },
        totals: { accepted: 0, rejected: 0, succeeded, cancelled: 0, dead: 0, turns_held: 0, turns_moved: 0 },
      }),
    );
  assert.equal(at(1000, 100), undefined);
  assert.equal(at(2000, 150), 50);
  assert.equal(at(12_000, 250), 10);
  assert.equal(at(13_000, 3, 2), undefined);
  assert.equal(at(14_000, 5, 2), 2);
});

test('the store is asked for dead jobs every ten seconds only, and pools only if they may be seen', async () => {
  const asked: string[] = [];
  let now = 0;
  const client = {
    status: async () => statusOf(),
    pools: async () => {
      asked.push('pools');
      throw new ClientError(403, { code: 'FORBIDDEN' });
    },
    list: async () => {
      asked.push('dead');
      return { jobs: [] };
    },
  };
  const reader = new SnapshotReader(client as never, () => now);
  assert.equal((await reader.read()).pools, undefined);
  now = 9999;
  await reader.read();
  assert.deepEqual(asked.splice(0).sort(), ['dead', 'pools']);
  now = 10_001;
  await reader.read();
  assert.deepEqual(asked, ['dead']);
});
