import assert from 'node:assert/strict';
import fs from 'node:fs';
import { describe, test } from 'node:test';
import {
  CommandKit,
  hear,
  js,
  kill,
  offerOf,
  run,
  sh,
  until,
  WHO,
} from '../../../../test/fakes/command-kit.ts';
import type { Disk, Env } from '../../../kit/env/env.ts';
import { realEnv } from '../../../kit/env/real.ts';
import { isAlive } from '../../../kit/process/identity.ts';
import type { OwnerRecord } from './layout.ts';

describe('a kill', () => {
  test('ends a command that obeys SIGTERM; its outcome is cancelled', async (t) => {
    const kit = new CommandKit(t);
    const backend = kit.backend(sh('echo here; exec sleep 600'));
    await backend.offer(offerOf('job:1'));
    assert.deepEqual(await backend.kill('job:1', WHO), { is: 'stopping' });
    const { outcome } = await hear(backend, 'job:1');
    assert.deepEqual(outcome, { ok: 'cancelled' });
    assert.deepEqual(await backend.kill('job:1', WHO), { is: 'ended', outcome });
  });

  test('that is repeated sends no signal before the first has written the `kill` file', async (t) => {
    const kit = new CommandKit(t);
    const { disk, reached, release } = diskHeldAt(kit.paths('job:1').kill);
    const backend = kit.backend(sh('exec sleep 600'), {}, { ...realEnv(), disk });
    await backend.offer(offerOf('job:1'));
    const first = backend.kill('job:1', WHO);
    await reached;
    const second = backend.kill('job:1', WHO);
    // 200 inspections take longer than a stopped command needs to end.
    for (let inspections = 0; inspections < 200; inspections++) {
      const { known } = await backend.inspect(['job:1'], WHO);
      assert.deepEqual(known.get('job:1'), { is: 'running' });
    }
    release();
    assert.deepEqual(await Promise.all([first, second]), [{ is: 'stopping' }, { is: 'stopping' }]);
    assert.deepEqual((await hear(backend, 'job:1')).outcome, { ok: 'cancelled' });
  });

  test('ends a command also where the disk has no room for the `kill` file', async (t) => {
    const kit = new CommandKit(t);
    const full = diskWith((open) => (path, mode) => {
      if (!path.startsWith(`${kit.paths('job:1').kill}.`)) return open(path, mode);
      return Promise.reject(Object.assign(new Error('no space'), { code: 'ENOSPC' }));
    });
    const backend = kit.backend(sh('exec sleep 600'), {}, { ...realEnv(), disk: full });
    await backend.offer(offerOf('job:1'));
    assert.deepEqual(await backend.kill('job:1', WHO), { is: 'stopping' });
    assert.deepEqual((await hear(backend, 'job:1')).outcome, { ok: 'cancelled' });
  });

  test('ends a process group that ignores SIGTERM, after the grace period', async (t) => {
    const kit = new CommandKit(t);
    // Children and grandchildren, all of which ignore SIGTERM.
    const script = `
      trap '' TERM
      (trap '' TERM; (trap '' TERM; while :; do sleep 1; done) & while :; do sleep 1; done) &
      echo ready
      while :; do sleep 1; done`;
    const backend = kit.backend(sh(script));
    await backend.offer(offerOf('job:1'));
    await until(() => fs.readFileSync(kit.paths('job:1').stdout, 'utf8') === 'ready\n');
    const { pid: group } = await until(() => kit.wrapper('job:1'));
    assert.ok(members(group).length >= 3);
    const before = performance.now();
    await backend.kill('job:1', WHO);
    assert.deepEqual((await hear(backend, 'job:1')).outcome, { ok: 'cancelled' });
    const took = performance.now() - before;
    assert.ok(took >= 1900, `it was killed after ${took} ms`);
    await until(() => members(group).length === 0);
  });

  test('lets a command that handles SIGTERM finish its output', async (t) => {
    const kit = new CommandKit(t);
    const backend = kit.backend(sh(`trap 'echo bye; exit 0' TERM; echo hi; while :; do sleep 0.05; done`));
    await backend.offer(offerOf('job:1'));
    await until(() => fs.readFileSync(kit.paths('job:1').stdout, 'utf8') === 'hi\n');
    await backend.kill('job:1', WHO);
    const { outcome, text } = await hear(backend, 'job:1');
    assert.deepEqual(outcome, { ok: 'cancelled' });
    assert.equal(text, 'hi\nbye\n');
  });

  test('of an unknown token leaves a tombstone: the token never runs, also after a restart', async (t) => {
    const kit = new CommandKit(t);
    const type = sh(`echo ran >> ${kit.ledger}`);
    const one = kit.backend(type);
    const reply = await one.kill('job:1', WHO);
    const { registry, rememberedSince } = await one.inspect([], WHO);
    assert.deepEqual(reply, { is: 'tombstoned', registry, rememberedSince });
    assert.deepEqual(await one.kill('job:1', WHO), reply);
    for (const backend of [one, kit.backend(type)]) {
      assert.equal((await backend.offer(offerOf('job:1'))).is, 'refused');
      assert.equal((await backend.inspect(['job:1'], WHO)).known.size, 0);
    }
    assert.equal((await hear(one, 'job:1')).outcome, 'lost');
    assert.deepEqual(kit.runs(), []);
  });

  test('concurrent with an offer: the command ends, or it never ran', async (t) => {
    const kit = new CommandKit(t);
    const type = sh(`echo ran >> ${kit.ledger}; exec sleep 600`);
    for (const [at, delayMs] of [0, 1, 3, 10, 30, 100, 200].entries()) {
      const [one, two] = [kit.backend(type), kit.backend(type)];
      const token = `job${at}:1`;
      const runsBefore = kit.runs().length;
      const offered = one.offer(offerOf(token));
      await new Promise((resolve) => setTimeout(resolve, delayMs));
      let reply = await two.kill(token, WHO);
      const answer = await offered;
      if (reply.is === 'stopping') {
        await hear(two, token);
        reply = await two.kill(token, WHO);
      }
      assert.equal(answer.is, reply.is === 'ended' ? 'accepted' : 'refused');
      assert.ok(kit.runs().length - runsBefore <= (reply.is === 'ended' ? 1 : 0));
    }
  });

  test('of a command that has ended returns its outcome', async (t) => {
    const kit = new CommandKit(t);
    const backend = kit.backend(sh('echo done'));
    const { outcome } = await run(backend, 'job:1');
    assert.deepEqual(await backend.kill('job:1', WHO), { is: 'ended', outcome });
  });

  test('ends a command whose keeper hangs', async (t) => {
    const kit = new CommandKit(t);
    let later = 0;
    const real = realEnv();
    const env: Env = { ...real, clock: { ...real.clock, monotonic: () => real.clock.monotonic() + later } };
    const backend = kit.backend(sh('exec sleep 600'), {}, env);
    await backend.offer(offerOf('job:1'));
    const child = await until(() => kit.wrapper('job:1'));
    kill(kit.record<OwnerRecord>(kit.paths('job:1').owner).pid, 'SIGSTOP');
    assert.equal((await backend.kill('job:1', WHO)).is, 'stopping');
    later = 11_000;
    assert.equal((await backend.kill('job:1', WHO)).is, 'stopping');
    assert.deepEqual(await until(async () => endOf(await backend.kill('job:1', WHO))), { ok: 'cancelled' });
    assert.equal(isAlive(child), false);
  });
});

test('a keeper that gets a SIGTERM from elsewhere reports that the outcome is unknown', async (t) => {
  const kit = new CommandKit(t);
  const backend = kit.backend(js('setInterval(() => {}, 1000)'));
  await backend.offer(offerOf('job:1'));
  kill(kit.record<OwnerRecord>(kit.paths('job:1').owner).pid, 'SIGTERM');
  const { outcome } = await hear(backend, 'job:1');
  assert.equal(outcome, 'forgotten');
});

test('a command whose folder is removed ends, and so does its keeper', async (t) => {
  const kit = new CommandKit(t);
  const backend = kit.backend(sh('trap "" TERM; while :; do sleep 0.2; done', { cwd: kit.root }));
  await backend.offer(offerOf('job:1'));
  await until(() => kit.wrapper('job:1'));
  await backend.stop();
  fs.rmSync(kit.folder, { recursive: true });
  await until(() => kit.processes().length === 0);
});

const endOf = (reply: { is: string; outcome?: unknown }) =>
  reply.is === 'ended' ? reply.outcome : undefined;

/** The pids of a process group, without zombies. */
function members(group: number): string[] {
  return fs.readdirSync('/proc').filter((name) => {
    if (!/^\d+$/.test(name)) return false;
    try {
      const stat = fs.readFileSync(`/proc/${name}/stat`, 'latin1');
      const [state, , pgrp] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      return Number(pgrp) === group && state !== 'Z';
    } catch {
      return false;
    }
  });
}

/** A disk that does not open the temporary file of `path` until `release` is called. */
function diskHeldAt(path: string): { disk: Disk; reached: Promise<void>; release: () => void } {
  const reached = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  const disk = diskWith((open) => async (name, mode) => {
    if (name.startsWith(`${path}.`)) {
      reached.resolve();
      await released.promise;
    }
    return open(name, mode);
  });
  return { disk, reached: reached.promise, release: released.resolve };
}

/** The real disk with another `open`. */
function diskWith(wrap: (open: Disk['open']) => Disk['open']): Disk {
  const { disk } = realEnv();
  const open = wrap((path, mode) => disk.open(path, mode));
  return new Proxy(disk, {
    get(target, name) {
      const member = name === 'open' ? open : target[name as keyof Disk];
      return typeof member === 'function' ? member.bind(target) : member;
    },
  });
}
