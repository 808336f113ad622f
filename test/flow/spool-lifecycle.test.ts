/** Agent, watchdog and manager as the parts of one lifecycle: the order of their start and stop, and stops in mid-start. */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { SpoolAgent } from '../../src/daemons/spool/agent.ts';
import type { JobHandler } from '../../src/daemons/spool/handler.ts';
import { SpoolManager } from '../../src/daemons/spool/manager.ts';
import { SpoolWatchdog } from '../../src/daemons/spool/watchdog.ts';
import type { Disk } from '../../src/kit/env/env.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { ServiceList } from '../../src/kit/service-list.ts';
import { checkSpool } from '../../src/spool/invariants.ts';
import { type Spool, spoolAt } from '../../src/spool/spool.ts';
import { orchd } from './cli-process.ts';
import { SpoolSite } from './spool-site.ts';

const env = realEnv();
const PRELOAD = pathToFileURL(join(import.meta.dirname, 'signals-itself.ts')).href;
const kindOf = (actor: string): string => actor.split('-')[0] as string;

interface Order {
  readonly opened: readonly string[];
  readonly closed: readonly string[];
}

/** Watches the folders of daemons in `tmp/` come and go; the kernel tells of a folder in order, and of some things twice. */
function watchActors(t: TestContext, site: SpoolSite): { order(): Promise<Order> } {
  const seen: string[] = [];
  const watcher = fs.watch(site.kit.path('tmp'), (_, name) => void seen.push(kindOf(name ?? '')));
  t.after(() => watcher.close());
  return {
    /** When all of them are gone: the first that was told of each was its begin, the last its end. */
    async order() {
      fs.mkdirSync(site.kit.path('tmp/mark'));
      await site.until('everything was told', () => seen.includes('mark'));
      fs.rmdirSync(site.kit.path('tmp/mark'));
      const daemons = seen.filter((kind) => ['watchdog', 'manager', 'agent'].includes(kind));
      return { opened: [...new Set(daemons)], closed: [...new Set(daemons.toReversed())].toReversed() };
    },
  };
}

async function isClean(site: SpoolSite): Promise<void> {
  for (const folder of ['tmp', 'in-progress']) assert.deepEqual(site.kit.names(folder), []);
  assert.deepEqual(await checkSpool(site.kit.spool), []);
}

/** Parts that have nothing but the spool: `disk` sees what they do to it. */
function makeParts(
  spool: Spool,
  handler: JobHandler,
  { retryMs = 1, disk = spool.env.disk } = {},
): ServiceList {
  const own = { ...spool, env: { ...spool.env, disk } };
  const seen = { ...env, disk };
  const backoff = { baseDelayMs: retryMs, maxDelayMs: retryMs, jitter: 0 };
  return new ServiceList([
    new SpoolWatchdog({ env: seen, spool: own, intervalMs: 20 }),
    new SpoolManager({ env: seen, spool: own, intervalMs: 20, backoff }),
    new SpoolAgent({ env: seen, spool: own, handler, slots: 4, stopGraceMs: 0 }),
  ]);
}

test('[FARRO-11] agents and managers are started and stopped in order as parts of one lifecycle, and keep nothing of their own', {
  timeout: 120_000,
}, async (t) => {
  const site = await SpoolSite.make(t);
  const actors = watchActors(t, site);
  const up = await site.daemon(['up', '--grace', '0s', '--retry-delay', '1h', ...site.script('sleep 1000')]);
  await site.submit('long');
  await site.until('the job is begun', () => site.noted('begin', 'long') === 1);
  up.child.kill('SIGTERM');
  assert.equal((await up.ended).code, 0);
  const opened = ['watchdog', 'manager', 'agent'];
  assert.deepEqual(await actors.order(), { opened, closed: opened.toReversed() });
  assert.deepEqual(site.kit.names('incoming'), ['long']);
  await isClean(site);
  // Others go on with what these have left, and nothing is missing that only these could have known.
  site.kit.put('completed/failed/failed', {
    'prompt.json': '{}',
    'job.json': JSON.stringify({
      status: 'failed',
      'schema-version': '1.0.0',
      retry_count: 1,
      max_retries: 2,
    }),
  });
  const next = makeParts(site.kit.spool, async ({ name }) => ({ ok: true, result: name }));
  t.after(() => next.stop());
  await next.start();
  await site.has('completed/succeeded', 'failed', 'long');
  await next.stop();
  await isClean(site);
});

for (const [at, opened] of [
  ['watchdog', ['watchdog']],
  ['manager', ['watchdog', 'manager']],
  ['agent', ['watchdog', 'manager', 'agent']],
] as const)
  test(`[FARRO-11] a SIGTERM while the ${at} starts: what has started is stopped, and nothing else is started`, {
    timeout: 60_000,
  }, async (t) => {
    const site = await SpoolSite.make(t);
    await site.submit('job');
    const actors = watchActors(t, site);
    const { code, err } = await orchd(['spool', 'up', site.kit.folder, ...site.script('true')], {
      env: { NODE_OPTIONS: `--import ${PRELOAD}`, SIGNAL_AT: `tmp/${at}-` },
    });
    assert.equal(code, 0, err);
    assert.doesNotMatch(err, /at work/);
    assert.deepEqual(await actors.order(), { opened, closed: opened.toReversed() });
    await isClean(site);
    assert.deepEqual([site.kit.names('incoming'), site.noted('begin', 'job')], [['job'], 0]);
  });

test('a stop at every operation of the start leaves nothing behind, and opens no further part', {
  timeout: 120_000,
}, async (t) => {
  const site = await SpoolSite.make(t);
  const handler: JobHandler = async () => ({ ok: true, result: 1 });
  for (let at = 1; ; at++) {
    const opened: string[] = [];
    let [count, openedAtStop] = [0, -1];
    let stopped: Promise<void> | undefined;
    const onOperation = (): void => {
      if (++count !== at) return;
      openedAtStop = opened.length;
      stopped = all.stop();
    };
    const disk = watched(site.kit.spool.env.disk, (method, path) => {
      if (method === 'makeNewFolder' && basename(dirname(path)) === 'tmp')
        opened.push(kindOf(basename(path)));
      onOperation();
    });
    const all = makeParts(spoolAt({ ...site.kit.spool, folder: site.kit.folder }), handler, { disk });
    await all.start();
    const wasMidStart = stopped !== undefined;
    await (stopped ?? all.stop());
    await isClean(site);
    if (!wasMidStart) break;
    assert.equal(opened.length, openedAtStop, `stopped at operation ${at}: ${opened}`);
  }
});

/** A disk that tells of each call before it is made. */
function watched(disk: Disk, onCall: (method: string, path: string) => void): Disk {
  return new Proxy(disk, {
    get(target, name) {
      const value = Reflect.get(target, name, target) as unknown;
      if (typeof value !== 'function') return value;
      return (...args: unknown[]) => {
        onCall(String(name), String(args[0]));
        return (value as (...args: unknown[]) => unknown).apply(target, args);
      };
    },
  });
}
