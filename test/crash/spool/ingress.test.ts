/**
 * A folder that is dropped into a spool comes back with the result of a brain, and the brain's backend has run it once:
 * with the agent killed before and after every rename of the job, the brain at its crash points, and each of them, or
 * both, at every request between them, when it was sent and when it was answered. All of them are real processes.
 * CRASH_ALL=1 tries all cases.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkSpool } from '../../../src/spool/invariants.ts';
import { sampleOfKinds } from '../sample.ts';
import { IngressSite, type Victim } from './ingress-site.ts';
import type { Stop } from './stopping-proxy.ts';

interface Case {
  readonly kind: string;
  readonly name: string;
  readonly victims: readonly Victim[];
  /** Settles when all victims are dead. */
  readonly strike: (site: IngressSite, job: string, drop: () => Promise<void>) => Promise<void>;
}

/** Lock, claim, status, result, status, move, removal of the lock. */
const RENAMES = 7;

const atRenames = Array.from({ length: RENAMES }, (_, at) => at + 1).flatMap((n) =>
  (['before', 'after'] as const).map(
    (side): Case => ({
      kind: 'agent, rename',
      name: `the agent is killed ${side} rename ${n}`,
      victims: ['agent'],
      async strike(site, job, drop) {
        site.dieAt('agent', { at: 'rename', job, n, side });
        await drop();
        await site.died('agent');
      },
    }),
  ),
);

const PLACES = [
  'loop:after-step',
  'loop:after-append',
  'commit:before-replies',
  'commit:after-replies',
  'effect:before-offer',
  'effect:after-offer',
  'effect:before-ack',
] as const;

const atCrashpoints = PLACES.map(
  (name): Case => ({
    kind: 'brain, crash point',
    name: `the brain is killed at ${name}`,
    victims: ['brain'],
    async strike(site, _, drop) {
      site.dieAt('brain', { at: 'crashpoint', name });
      await drop();
      await site.died('brain');
    },
  }),
);

const REQUESTS = [
  ['POST', /^\/v2\/tasks$/, 'submit'],
  ['GET', /\/events$/, 'stream of events'],
  ['GET', /^\/v2\/tasks\/[^/]+$/, 'look at the job'],
] as const;

const atRequests = REQUESTS.flatMap(([method, path, what]) =>
  (['asked', 'answered'] as const).flatMap((side) =>
    [['agent'], ['brain'], ['agent', 'brain']].map((who) => {
      const victims = who as readonly Victim[];
      return {
        kind: `${victims.join(' and ')}, request`,
        name: `killed when the ${what} was ${side}: ${victims.join(' and ')}`,
        victims,
        async strike(site, _, drop) {
          const { promise, resolve } = Promise.withResolvers<void>();
          const hit: Stop['hit'] = async () => {
            await Promise.all(victims.map((victim) => site.kill(victim)));
            resolve();
          };
          site.proxy.stopAt({ method, path, side, hit });
          await drop();
          await promise;
        },
      } satisfies Case;
    }),
  ),
);

const ALL: readonly Case[] = [...atRenames, ...atCrashpoints, ...atRequests];
const every = process.env['CRASH_ALL'] === '1' ? 1 : Number.POSITIVE_INFINITY;

test('a job that is handed to a brain comes back once, whoever is killed', {
  timeout: 600_000,
}, async (t) => {
  const site = await IngressSite.make(t);
  const cases = sampleOfKinds(ALL, ({ kind }) => kind, every);
  const jobs = cases.map((_, at) => `job-${at}.`);
  for (const [at, { name, victims, strike }] of cases.entries()) {
    const job = jobs[at] as string;
    await t.test(name, async () => {
      await strike(site, job, () => site.site.submit({ name: job, prompt: { type: 'work' } }));
      for (const victim of victims.toReversed()) await site.restart(victim);
      await site.site.has('completed/succeeded', ...jobs.slice(0, at + 1));
    });
  }
  site.ranOnce(jobs);
  const { kit } = site.site;
  await site.site.until('everything is in its place', async () => (await checkSpool(kit.spool)).length === 0);
  for (const folder of ['incoming', 'jobs/stale', 'completed/failed', 'completed/killed'])
    assert.deepEqual(kit.names(folder), []);
});
