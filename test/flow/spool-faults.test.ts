/** A spool on a machine with other users, without watches, with a wrong clock, and with names that nobody can write. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { test } from 'node:test';
import { functionHandler } from '../../src/daemons/spool/handler.ts';
import type { Clock } from '../../src/kit/env/env.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { realHost } from '../../src/kit/process/host.ts';
import { Actor } from '../../src/spool/actor.ts';
import { checkSpool } from '../../src/spool/invariants.ts';
import { loadJob } from '../../src/spool/load.ts';
import { spoolAt } from '../../src/spool/spool.ts';
import { submitJob } from '../../src/spool/submit.ts';
import { deadOwner } from '../fakes/spool-kit.ts';
import { jsonLines, orchd } from './cli-process.ts';
import { SpoolServices } from './spool-services.ts';
import { SpoolSite } from './spool-site.ts';

const LIMITS = { timeout: 120_000 };
const isRoot = process.getuid?.() === 0;
const NOBODY = 65_534;
const YEAR_MS = 365 * 24 * 3600 * 1000;

const echo = functionHandler((prompt) => prompt);

test('jobs of another user stay where they are and are named by log, check and ls; others are run', {
  ...LIMITS,
  skip: isRoot ? false : 'only root can be two users',
}, async (t) => {
  const site = await SpoolSite.make(t);
  const { kit } = site;
  // Without these rights root is a user like any other, who can still read this checkout.
  const within = ['setpriv', '--bounding-set=-dac_override,-dac_read_search'];
  for (const name of ['not-movable', 'not-readable', 'secret-prompt', 'good'])
    kit.put(`incoming/${name}`, { 'prompt.json': '{}' });
  const rights = { 'not-movable': 0o755, 'not-readable': 0o700, 'secret-prompt/prompt.json': 0o600 };
  for (const [path, mode] of Object.entries(rights)) {
    fs.chownSync(kit.path('incoming', path), NOBODY, NOBODY);
    fs.chmodSync(kit.path('incoming', path), mode);
  }
  const bad = ['not-movable', 'not-readable', 'secret-prompt'];
  const agent = await site.daemon(['agent', '--slots', '1', '--settle', '1ms', '--', 'cat'], { within });
  await site.has('completed/succeeded', 'good');
  for (const name of bad) await agent.saw('out', new RegExp(`"level":"critical".*"job_id":"${name}"`));
  assert.deepEqual(kit.names('incoming'), bad);
  const ls = await orchd(['spool', 'ls', kit.folder, '--in', 'incoming', '--json'], { within });
  const named = jsonLines(ls.out).filter(({ problem }) => problem !== undefined);
  assert.deepEqual(named.map(({ name }) => name).sort(), bad);
  const check = await orchd(['spool', 'check', kit.folder, '--json'], { within });
  const paths = new Set(jsonLines(check.out).map(({ path }) => path));
  assert.deepEqual(
    [...paths].sort(),
    bad.map((name) => `incoming/${name}`),
  );
});

/** Limits of watches are those of a user namespace, so that nobody else is concerned. */
const NO_WATCHES = [
  'unshare',
  '--user',
  '--map-root-user',
  'sh',
  '-c',
  'echo 0 >/proc/sys/user/max_inotify_instances && exec "$@"',
  'sh',
];
const noUserNamespaces =
  spawnSync(NO_WATCHES[0] as string, [...NO_WATCHES.slice(1), 'true']).status === 0
    ? false
    : 'there can be no user namespaces here';

test('an agent that gets no watches looks for jobs itself', {
  ...LIMITS,
  skip: noUserNamespaces,
}, async (t) => {
  const site = await SpoolSite.make(t);
  const watch = `import('node:fs').then((fs) => fs.watch('/'))`;
  const refused = spawnSync(NO_WATCHES[0] as string, [...NO_WATCHES.slice(1), process.execPath, '-e', watch]);
  assert.match(String(refused.stderr), /EMFILE|ENOSPC/, 'there are no watches');
  await site.daemon(['agent', ...site.script('true')], { within: NO_WATCHES });
  await site.submit('first');
  await site.has('completed/succeeded', 'first');
  await site.submit('second');
  await site.has('completed/succeeded', 'first', 'second');
});

test('a name that is not UTF-8 is in the log, and other jobs are run', LIMITS, async (t) => {
  const site = await SpoolServices.make(t);
  fs.mkdirSync(Buffer.concat([Buffer.from(site.kit.path('incoming/')), Buffer.from([0x61, 0xff])]));
  await site.submit('good');
  await site.start(site.agent(echo));
  await site.has('completed/succeeded', 'good');
  await site.logged('critical', /"job_id":"a\ufffd"/);
});

/** Waits until the watchdog has looked through the whole spool: the first of two dead locks may go in a sweep under way. */
async function swept(site: SpoolServices): Promise<void> {
  for (const lock of ['one.lock', 'other.lock']) {
    site.kit.put(`tmp/${lock}`, { 'owner.json': deadOwner(site.kit, 'agent-dead') });
    fs.renameSync(site.kit.path('tmp', lock), site.kit.path('incoming', lock));
    await site.until(
      () => !site.kit.names('incoming').includes(lock),
      () => `${lock} is still there`,
    );
  }
}

for (const stepMs of [YEAR_MS, -YEAR_MS])
  test(
    `the wall clock is set ${stepMs > 0 ? 'forward' : 'back'} by a year: nobody is taken for dead, and jobs go on`,
    LIMITS,
    async (t) => {
      const real = realEnv();
      let step = 0;
      const clock: Clock = { now: () => real.clock.now() + step, monotonic: () => real.clock.monotonic() };
      const settings = { settleMs: 20, foreignLockTtlMs: 60_000, maxRetries: 5 };
      const site = await SpoolServices.make(t, { env: { ...real, clock }, settings });
      const { spool } = site.kit;
      // An agent of another machine has a job.
      const host = realHost(() => real.clock.now());
      const far = spoolAt({
        ...spool,
        folder: site.kit.folder,
        host: { ...host, hostname: 'far', self: { ...host.self, boot: 'another' } },
      });
      const agent = await Actor.open(far, 'agent', 'far');
      await submitJob(agent, { name: 'p5-20260101T000000000-far', prompt: 1 });
      assert.equal((await loadJob(agent, 'p5-20260101T000000000-far')).is, 'loaded');

      let tries = 0;
      const failsOnce = functionHandler(() => {
        if (++tries === 1) throw new Error('no luck');
        return tries;
      });
      for (const service of [site.watchdog(), site.manager(), site.agent(failsOnce)])
        await site.start(service);
      await swept(site);
      step = stepMs;
      await swept(site);
      await site.submit('dropped');
      site.kit.put('incoming/in place', { 'prompt.json': '{}' });
      await site.has('completed/succeeded', 'dropped', 'in place');
      assert.deepEqual(site.kit.names('in-progress', agent.id), ['p5-20260101T000000000-far']);
      const found = (await checkSpool(spool)).map(({ code, path }) => `${code} ${path}`);
      assert.deepEqual(found, []);
    },
  );
