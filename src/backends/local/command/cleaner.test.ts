import assert from 'node:assert/strict';
import fs from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { CommandKit, hear, offerOf, run, sh, until, WHO } from '../../../../test/fakes/command-kit.ts';
import type { Disk, Env } from '../../../kit/env/env.ts';
import { realEnv } from '../../../kit/env/real.ts';
import type { ExitRecord } from './layout.ts';

const DAY_MS = 24 * 3_600_000;

const SWEEP_MS = 60_000;

/** The real environment with a wall clock that is wrong by so much. */
function withWrongClock(byMs: number): Env {
  const real = realEnv();
  return { ...real, clock: { ...real.clock, now: () => real.clock.now() + byMs } };
}

/** The real environment, in which lived time passes at once; what waits for the next sweep is then run. */
class PassingTime {
  readonly env: Env;
  #passedMs = 0;
  readonly #sweeps = new Set<() => void>();

  constructor() {
    const real = realEnv();
    const monotonic = (): number => real.clock.monotonic() + this.#passedMs;
    this.env = {
      ...real,
      clock: { ...real.clock, monotonic },
      timers: { ...real.timers, after: (ms, run) => this.#after(ms, run) },
    };
  }

  /** Lets time pass and waits for the sweep that follows. */
  async pass(ms: number, kit: CommandKit): Promise<void> {
    this.#passedMs += ms;
    const lived = join(kit.folder, 'lived.json');
    fs.rmSync(lived, { force: true });
    for (const run of [...this.#sweeps]) run();
    // A sweep begins with lived.json, and a second one does not begin before the first is over.
    await until(() => fs.existsSync(lived) && this.#sweeps.size > 0);
  }

  #after(ms: number, run: () => void): () => void {
    if (ms !== SWEEP_MS) return realEnv().timers.after(ms, run);
    const once = (): void => {
      this.#sweeps.delete(once);
      run();
    };
    this.#sweeps.add(once);
    return () => void this.#sweeps.delete(once);
  }
}

/** A real disk that fails for good after so many changes to it, once they begin to count. */
class DyingDisk {
  readonly env: Env;
  begins = false;

  constructor(steps: number) {
    const real = realEnv();
    let left = steps;
    const get = (disk: Disk, name: string): unknown => {
      const member = disk[name as keyof Disk] as (...args: unknown[]) => unknown;
      return (...args: unknown[]) => {
        const isChange = name === 'rename' || name === 'syncFolder';
        if (this.begins && isChange && left-- <= 0) throw new Error('the process has died');
        return member.apply(disk, args);
      };
    };
    this.env = { ...real, disk: new Proxy(real.disk, { get: get as never }) };
  }
}

/** The files in the folder of the only token. */
const filesOf = (kit: CommandKit): string[] => {
  const [only = ''] = fs.readdirSync(join(kit.folder, 'executions'));
  return fs.readdirSync(join(kit.folder, 'executions', only));
};

/** The names of the tokens' folders, without the brain. */
const names = (kit: CommandKit): string[] =>
  fs.readdirSync(join(kit.folder, 'executions')).map((name) => name.slice(name.indexOf('.') + 1));

describe('retention', () => {
  test('an acknowledged execution stays readable for a while, then nothing of it is left', async (t) => {
    const kit = new CommandKit(t);
    // Files in the command's own folder are removed too; what a link there points to stays.
    const outside = join(kit.root, 'outside');
    fs.mkdirSync(outside);
    const one = kit.backend(sh(`mkdir -p deep/er; ln -s ${outside} link; echo x > deep/er/file; echo out`));
    const { events } = await run(one, 'job:1');
    await one.ack('job:1', WHO);
    const time = new PassingTime();
    const two = kit.backend(sh('true'), {}, time.env);
    await two.start();
    await time.pass(9 * 60_000, kit);
    assert.deepEqual((await hear(two, 'job:1')).events, events);
    await time.pass(2 * 60_000, kit);
    assert.deepEqual(names(kit), []);
    assert.deepEqual(fs.readdirSync(join(kit.folder, 'trash')), []);
    assert.ok(fs.existsSync(outside));
    assert.equal((await hear(two, 'job:1')).outcome, 'lost');
  });

  test('an offer that names a lost registry is answered with busy: it may be a late copy of a settled attempt', async (t) => {
    const kit = new CommandKit(t);
    const before = kit.backend(sh('true'));
    await before.start();
    const offer = { ...offerOf('job:1'), registry: before.info.registry };
    fs.rmSync(kit.folder, { recursive: true });
    const after = kit.backend(sh('true'));
    assert.deepEqual(await after.offer(offer), { is: 'busy' });
    assert.deepEqual(names(kit), []);
    assert.equal((await after.offer({ ...offer, registry: after.info.registry })).is, 'accepted');
  });

  test('keepAckedMs sets how long acknowledged executions are kept', async (t) => {
    const kit = new CommandKit(t);
    const one = kit.backend(sh('true'));
    await run(one, 'job:1');
    await one.ack('job:1', WHO);
    const time = new PassingTime();
    await kit.backend(sh('true'), { keepAckedMs: 0 }, time.env).start();
    await time.pass(SWEEP_MS, kit);
    assert.deepEqual(names(kit), []);
  });

  test('an erased execution leaves a tombstone for a day, and nothing of what it has said', async (t) => {
    const kit = new CommandKit(t);
    const backend = kit.backend(sh('echo said; echo said >&2; echo said > said; exit 65'));
    await backend.start();
    await run(backend, 'job:1');
    await backend.erase('job:1', WHO);
    assert.deepEqual(filesOf(kit), ['tombstone']);
    await backend.stop();
    const time = new PassingTime();
    const next = kit.backend(sh('true'), {}, time.env);
    await next.start();
    await time.pass(0.9 * DAY_MS, kit);
    assert.equal((await next.offer(offerOf('job:1'))).is, 'refused');
    await time.pass(0.2 * DAY_MS, kit);
    assert.deepEqual(names(kit), []);
  });

  test('a brain that dies while it erases an execution leaves the rest to the next one', async (t) => {
    for (let step = 0; ; step++) {
      const kit = new CommandKit(t);
      const dying = new DyingDisk(step);
      const backend = kit.backend(sh('echo said; exit 65'), {}, dying.env);
      await run(backend, 'job:1');
      dying.begins = true;
      const isErased = await backend.erase('job:1', WHO).then(
        () => true,
        () => false,
      );
      await backend.stop();
      if (isErased) return assert.ok(step > 3, `it has ${step} steps`);
      const next = kit.backend(sh('true'));
      await next.start();
      if (filesOf(kit).includes('tombstone')) assert.deepEqual(filesOf(kit), ['tombstone'], `step ${step}`);
      else await next.erase('job:1', WHO);
      assert.deepEqual(filesOf(kit), ['tombstone']);
      assert.equal((await next.offer(offerOf('job:1'))).is, 'refused');
      await next.stop();
    }
  });

  test('an end whose acknowledgement was lost is named to the next brain of the same owner, and to no other', async (t) => {
    const kit = new CommandKit(t);
    const one = kit.backend(sh('true'));
    await one.start();
    for (const token of ['acked:1', 'lost:1', 'asked:1']) await run(one, token);
    await one.ack('acked:1', WHO);
    await one.stop();
    const two = kit.backend(sh('true'));
    await two.start();
    const { others } = await two.inspect(['asked:1'], WHO);
    assert.deepEqual(others, [{ token: 'lost:1', isRunning: false }]);
    assert.deepEqual((await two.inspect([], { owner: 'other', epoch: 1 })).others, []);
    await two.ack('lost:1', WHO);
    await two.ack('asked:1', WHO);
    assert.deepEqual((await two.inspect([], WHO)).others, []);
  });

  test('an acknowledgement of a running, tombstoned or unknown token changes nothing', async (t) => {
    const kit = new CommandKit(t);
    const backend = kit.backend(sh('exec sleep 600'), { keepAckedMs: 0 });
    await backend.offer(offerOf('running:1'));
    await backend.kill('killed:1', WHO);
    for (const token of ['running:1', 'killed:1', 'unknown:1']) await backend.ack(token, WHO);
    const time = new PassingTime();
    await kit.backend(sh('true'), { keepAckedMs: 0 }, time.env).start();
    await time.pass(SWEEP_MS, kit);
    assert.deepEqual(names(kit), ['t-killed%3a1', 't-running%3a1']);
  });

  test('an unacknowledged end is kept for a week of lived time; after that rememberedSince is later', async (t) => {
    const kit = new CommandKit(t);
    const one = kit.backend(sh('true'));
    await run(one, 'job:1');
    const before = await one.inspect([], WHO);
    const time = new PassingTime();
    const two = kit.backend(sh('true'), {}, time.env);
    await two.start();
    await time.pass(4 * DAY_MS, kit);
    await two.stop();
    // The next process goes on counting where the last one was.
    const later = new PassingTime();
    const three = kit.backend(sh('true'), {}, later.env);
    await three.start();
    await later.pass(2 * DAY_MS, kit);
    const kept = await three.inspect(['job:1'], WHO);
    assert.equal(kept.known.get('job:1')?.is, 'ended');
    assert.equal(kept.rememberedSince, before.rememberedSince);
    const { ended_at } = kit.record<ExitRecord>(kit.paths('job:1').exit);
    await later.pass(2 * DAY_MS, kit);
    const after = await three.inspect(['job:1'], WHO);
    assert.equal(after.known.size, 0);
    assert.equal(after.registry, before.registry);
    assert.ok(after.rememberedSince > ended_at, 'a token of that time may have run');
  });

  for (const days of [8, 10_000, -8]) {
    test(`a clock that is wrong by ${days} days removes no result, also not at a start`, async (t) => {
      const kit = new CommandKit(t);
      const one = kit.backend(sh('true'));
      await run(one, 'job:1');
      await one.kill('killed:1', WHO);
      const two = kit.backend(sh('true'), {}, withWrongClock(days * DAY_MS));
      await two.start();
      await two.stop();
      const three = kit.backend(sh('true'));
      await three.start();
      assert.equal((await three.inspect(['job:1'], WHO)).known.get('job:1')?.is, 'ended');
      assert.deepEqual(names(kit), ['t-job%3a1', 't-killed%3a1']);
    });
  }

  test('a tombstone outlives every offer that could still be under way', async (t) => {
    const kit = new CommandKit(t);
    await kit.backend(sh('true')).kill('job:1', WHO);
    const time = new PassingTime();
    await kit.backend(sh('true'), {}, time.env).start();
    await time.pass(DAY_MS / 2, kit);
    assert.deepEqual(names(kit), ['t-job%3a1']);
    await time.pass(DAY_MS, kit);
    assert.deepEqual(names(kit), []);
  });

  test('an offer that reaches its keeper too late is not carried out', async (t) => {
    const kit = new CommandKit(t);
    const backend = kit.backend(sh(`echo ran >> ${kit.ledger}`), {}, withWrongClock(-6 * 60_000));
    const reply = await backend.offer(offerOf('job:1'));
    assert.partialDeepStrictEqual(reply, { is: 'refused', error: { retriable: true } });
    assert.deepEqual(names(kit), []);
    assert.deepEqual(kit.runs(), []);
  });

  test('folders that a dead process left half made are removed', async (t) => {
    const kit = new CommandKit(t);
    await kit.backend(sh('true')).inspect([], WHO);
    for (const name of ['s-999999999-1', 'b-0011', 's-2-nonsense'])
      fs.mkdirSync(join(kit.folder, 'staging', name, 'work'), { recursive: true });
    fs.mkdirSync(join(kit.folder, 'trash', 'x', 'y'), { recursive: true });
    await kit.backend(sh('true')).start();
    for (const name of ['staging', 'trash']) assert.deepEqual(fs.readdirSync(join(kit.folder, name)), []);
  });

  test('the registry id survives restarts, and changes when its file is lost', async (t) => {
    const kit = new CommandKit(t);
    const one = kit.backend(sh('true'));
    await one.start();
    const two = kit.backend(sh('true'), {}, withWrongClock(DAY_MS));
    await two.start();
    assert.match(one.info.registry, /^[0-9a-f]{16}$/);
    assert.equal(two.info.registry, one.info.registry);
    fs.writeFileSync(join(kit.folder, 'registry.json'), '');
    const three = kit.backend(sh('true'));
    await three.start();
    assert.notEqual(three.info.registry, one.info.registry);
  });
});
