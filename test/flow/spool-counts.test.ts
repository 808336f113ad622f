/** What a job in a spool costs the disk when many are in flight: syncs and listings, counted. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SpoolAgent } from '../../src/daemons/spool/agent.ts';
import { functionHandler } from '../../src/daemons/spool/handler.ts';
import type { Disk, Timers } from '../../src/kit/env/env.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { poll } from '../../src/kit/poll.ts';
import { Actor } from '../../src/spool/actor.ts';
import { submitJob } from '../../src/spool/submit.ts';
import { makeSpoolKit } from '../fakes/spool-kit.ts';
import { RecordingDisk } from './recording-disk.ts';

const JOBS = 160;
const IN_FLIGHT = 16;

const real = realEnv();
/** Syncs wait for all other jobs in flight, however slow the machine is. */
const PATIENT: Timers = { ...real.timers, after: (ms, run) => real.timers.after(1000 * ms, run) };

test('with many jobs in flight a job takes 4 file syncs and 2.5 folder syncs at most, and no listing', async (t) => {
  const { disk: recorded, ops } = new RecordingDisk();
  let listings = 0;
  const entries: Disk['entries'] = (folder) => {
    listings++;
    return recorded.entries(folder);
  };
  const env = { ...real, timers: PATIENT, disk: { ...recorded, entries } };
  const { spool, names } = await makeSpoolKit(t, { env });
  const person = await Actor.open(spool, 'person');
  ops.length = 0;
  const dropped = Array.from({ length: JOBS }, (_, n) => `p5-20260102T030405678-${1000 + n}`);
  for (let at = 0; at < JOBS; at += IN_FLIGHT)
    await Promise.all(
      dropped.slice(at, at + IN_FLIGHT).map((name) => submitJob(person, { name, prompt: {} })),
    );

  const handler = functionHandler(() => ({ ok: true }));
  const agent = new SpoolAgent({ env: real, spool, handler, slots: IN_FLIGHT, stopGraceMs: 5000 });
  await agent.start();
  t.after(() => agent.stop());
  const areDone = (): true | undefined => (names('incoming').length === 0 ? true : undefined);
  assert.ok(await poll(real, { everyMs: 10, atMostMs: 60_000 }, areDone));

  assert.deepEqual(names('completed/succeeded'), dropped);
  const each = (op: string): number => ops.filter((one) => one.op === op).length / JOBS;
  assert.equal(each('sync'), 4);
  assert.ok(each('sync folder') <= 2.5, `${each('sync folder')} folder syncs a job`);
  assert.equal(listings, 1, 'incoming is listed once');
});
