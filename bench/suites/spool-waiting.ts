/**
 * An agent beside 100 and 100,000 waiting jobs of a spool: how long a claim takes, and how much memory the agent has. And
 * the time from the rename that drops a job into an idle spool to the start of its handler.
 */
import fs from 'node:fs';
import { join } from 'node:path';
import { functionHandler } from '../../src/daemons/spool/handler.ts';
import { IncomingJobs } from '../../src/daemons/spool/incoming.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { Actor } from '../../src/spool/actor.ts';
import { commitJob, saveResult } from '../../src/spool/commit.ts';
import type { Envelope } from '../../src/spool/envelope.ts';
import { loadJob } from '../../src/spool/load.ts';
import { type Bench, BODY, type Row, type Values } from '../kit/bench.ts';
import { inChild } from '../kit/child.ts';
import { settledMemory } from '../kit/memory.ts';
import { now, quantile, sleep } from '../kit/numbers.ts';
import { benchJobName, openBenchSpool } from '../systems/orchd-spool.ts';

const FEW = 100;
const MIB = 2 ** 20;
const PROMPT = `${JSON.stringify({ prompt: BODY })}\n`;

interface Args {
  readonly step: 'claim' | 'memory' | 'start';
  readonly folder: string;
  readonly samples: number;
}

const STEPS: Readonly<Record<Args['step'], (args: Args) => Promise<Values>>> = {
  claim: measureClaims,
  memory: measureMemory,
  start: measureStarts,
};

export const measure = (args: Args): Promise<Values> => STEPS[args.step](args);

/** Puts a job into the spool without any sync: `n` is its place in the queue. */
function put(folder: string, n: number): void {
  const made = join(folder, 'tmp', `made-${n}`);
  fs.mkdirSync(made);
  fs.writeFileSync(join(made, 'prompt.json'), PROMPT);
  fs.renameSync(made, join(folder, 'incoming', benchJobName(n)));
}

async function fill(folder: string, waiting: number): Promise<void> {
  await openBenchSpool(folder);
  for (let n = 0; n < waiting; n++) put(folder, n);
}

/** Claims the first job again and again; each is ended, and another put to the end of the queue, outside of the measured time. */
async function measureClaims({ folder, samples }: Args): Promise<Values> {
  const { spool, counts } = await openBenchSpool(folder);
  const actor = await Actor.open(spool, 'agent');
  const stop = new AbortController();
  const news = Promise.withResolvers<void>();
  const incoming = new IncomingJobs(realEnv(), spool, spool.logger, {
    onNews: news.resolve,
    isOurs: () => false,
  });
  const following = incoming.follow(stop.signal);
  await news.promise;
  const listed = counts.listings;
  const times: number[] = [];
  for (let at = 0; times.length < samples; at++) {
    const start = now();
    const next = incoming.next();
    const outcome = next && (await loadJob(actor, next.name));
    if (outcome?.is === 'loaded') {
      times.push(now() - start);
      await end(actor, outcome.envelope);
      put(folder, 1e9 + process.pid * 1e6 + at);
      await spool.env.disk.syncFolder(spool.paths.places.incoming);
    }
    // Until the notifications were read.
    await sleep(2);
  }
  const listings = counts.listings - listed;
  stop.abort();
  await following;
  await actor.close();
  return { p50Ms: quantile(times, 0.5), p90Ms: quantile(times, 0.9), listings };
}

async function end(actor: Actor, envelope: Envelope): Promise<void> {
  await saveResult(actor, envelope, { ok: true });
  await commitJob(actor, envelope, 'succeeded');
}

/** The memory of an agent that knows all waiting jobs, and runs one that does not end. */
async function measureMemory({ folder }: Args): Promise<Values> {
  const { agent: makeAgent } = await openBenchSpool(folder);
  const begun = Promise.withResolvers<void>();
  const agent = makeAgent(async ({ signal }) => {
    begun.resolve();
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    return { ok: false, reason: 'stopped' };
  }, 1);
  await agent.start();
  await begun.promise;
  const { rss, heapUsed } = await settledMemory();
  return { rssMib: rss / MIB, heapMib: heapUsed / MIB };
}

/** Jobs are dropped one at a time, by a rename, into a spool whose agent has nothing to do. */
async function measureStarts({ folder, samples }: Args): Promise<Values> {
  const { agent: makeAgent, counts, ended } = await openBenchSpool(folder);
  let startedAt = 0;
  const handler = functionHandler(() => {
    startedAt = now();
    return { ok: true };
  });
  const agent = makeAgent(handler, 1);
  await agent.start();
  await sleep(500);
  const listed = counts.listings;
  const times: number[] = [];
  for (let n = 0; n < samples; n++) {
    const droppedAt = now();
    put(folder, n);
    while (ended.jobs <= n) await sleep(1);
    times.push(startedAt - droppedAt);
    // Of another length each time, so that the drops keep no step with anything that polls.
    await sleep(20 + (n % 23));
  }
  const listings = counts.listings - listed;
  await agent.stop();
  return { p50Ms: quantile(times, 0.5), p99Ms: quantile(times, 0.99), listings };
}

export const bench: Bench = {
  name: 'spool-waiting',
  title: 'a spool with 100 and with 100k waiting jobs; from drop to start in an idle one',
  rounds: 'once',
  async run({ folder, quick }) {
    const many = quick ? 10_000 : 100_000;
    const own = join(folder, 'spool-waiting');
    const sizes = [
      ['few', FEW],
      ['many', many],
    ] as const;
    for (const [name, waiting] of sizes) await fill(join(own, name), waiting);
    const child = (step: Args['step'], name: string): Promise<Values> => {
      const args = { step, folder: join(own, name), samples: quick ? 50 : 200 };
      return inChild({ measure, url: import.meta.url }, args, ['--expose-gc']);
    };
    const rows: Row[] = [];
    for (let round = 0; round < (quick ? 1 : 3); round++) {
      for (const [name] of sizes) {
        rows.push({ case: `spool memory, ${name} waiting`, values: await child('memory', name) });
        rows.push({ case: `spool claim, ${name} waiting`, values: await child('claim', name) });
      }
      rows.push({ case: 'spool drop to start', values: await child('start', `idle-${round}`) });
    }
    fs.rmSync(own, { recursive: true });
    return rows;
  },
};
