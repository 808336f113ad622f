/** A steady stream of jobs, consumers of every kind side by side on one pool, and what their ledger must show afterwards. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { createConnection, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import type { Told } from '../fakes/consumer-programs.ts';
import type { OwnRedis } from '../fakes/redis.ts';
import { type Running, start } from './cli-process.ts';
import { aMoment, type ConsumerSite, EACH } from './consumer-kit.ts';

/** `STORM=1` takes the long form: more jobs, and faults that last for a minute. */
export const STORM =
  process.env['STORM'] === '1'
    ? { perSec: 200, calmSec: 5, faultSec: 60 }
    : { perSec: 100, calmSec: 0.5, faultSec: 6 };

const POOL = 'p';
const BATCHES_PER_SEC = 10;
const SLOTS = 32;
/** Every second job is so long that its consumer listens on Redis meanwhile; of the others it asks for more. */
const LONG_MS = 250;
/** Longer than every fault, so that no consumer falls silent and each job is run once. */
const LEASE_MS = 600_000;
/** The number of the attempt is in the name of the folder above the one in which a command runs. */
const COMMAND =
  // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the text of a shell script
  'd=${PWD%/*}; t="$JOB_ID:${d##*3a}"; echo "began $t 0" >> "$0"; case $JOB_ID in *[13579]) sleep 0.25;; esac; echo "ended $t 0" >> "$0"; echo "{}"';

export interface StormOptions {
  readonly redisUrl: string;
  readonly perSec?: number;
  /** What the jobs are told to do. */
  readonly payload?: Told;
}

export class Storm {
  readonly site: ConsumerSite;
  readonly told: string[] = [];
  readonly #t: TestContext;
  readonly #redisUrl: string;
  readonly #perSec: number;
  readonly #payload: Told;
  readonly #children: { readonly exitCode: number | null }[] = [];
  #stream: Promise<void> = Promise.resolve();
  #isOver = false;

  constructor(
    t: TestContext,
    site: ConsumerSite,
    { redisUrl, perSec = STORM.perSec, payload = { do: 'note' } }: StormOptions,
  ) {
    this.#t = t;
    this.site = site;
    this.#redisUrl = redisUrl;
    this.#perSec = perSec;
    this.#payload = payload;
  }

  /** Starts the consumers, and returns when all of them are there. */
  async gather(): Promise<void> {
    for (const language of EACH) {
      const options = { redisUrl: this.#redisUrl, leaseTtlMs: LEASE_MS, slots: SLOTS };
      this.#children.push(this.site.start(language, options).child);
    }
    this.#children.push(this.#consume().child);
    while ((await this.site.asked(() => this.site.consumers())).length < EACH.length + 1) await aMoment();
  }

  #consume(): Running {
    const { url, folder, ledger } = this.site;
    const words = ['consume', '--pool', POOL, '--type', 'work', '--slots', '4', '--lease', `${LEASE_MS}ms`];
    const where = ['--state', join(folder, 'state'), '--url', url, '--redis', this.#redisUrl];
    const running = start([...words, ...where, '--', 'sh', '-c', COMMAND, ledger]);
    this.#t.after(async () => {
      running.child.kill('SIGKILL');
      await running.ended;
    });
    return running;
  }

  /** Begins to submit, whether or not what was submitted has ended. */
  begin(prefix = 'job'): void {
    this.#isOver = false;
    this.#stream = this.#submitAll(prefix);
  }

  async #submitAll(prefix: string): Promise<void> {
    const startedAt = performance.now();
    const size = this.#perSec / BATCHES_PER_SEC;
    for (let batch = 0; !this.#isOver; batch++) {
      const ids = Array.from({ length: size }, (_, n) => `${prefix}${batch * size + n}`);
      await this.#submit(ids);
      const dueAt = startedAt + ((batch + 1) * 1000) / BATCHES_PER_SEC;
      if (dueAt > performance.now()) await pause(dueAt - performance.now());
    }
  }

  /** Until all of them are acknowledged: an id of its own makes it safe to ask again. */
  async #submit(ids: readonly string[]): Promise<void> {
    const lastsOf = (id: string): number => (/[13579]$/.test(id) ? LONG_MS : 0);
    const jobs = ids.map((job_id) => ({
      ...{
        job_id,
        type: 'work',
        payload: { ...this.#payload, lasts: lastsOf(job_id) },
        wait_for_backend: true,
        backend: 'consumers',
      },
    }));
    for (;;) {
      const answer = await this.site.asked(() =>
        fetch(`${this.site.url}/v2/tasks`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(jobs),
        }),
      );
      const text = await answer.text().catch(() => '');
      if (answer.ok && text !== '') {
        assert.doesNotMatch(text, /"error"/);
        this.told.push(...ids);
        return;
      }
      await aMoment();
    }
  }

  /** Returns when the jobs of so many more seconds are submitted. */
  async more(seconds: number): Promise<void> {
    const enough = this.told.length + seconds * this.#perSec;
    while (this.told.length < enough) await aMoment();
  }

  /** Ends the stream of jobs, and returns when all have ended. */
  async end(): Promise<void> {
    this.#isOver = true;
    await this.#stream;
    const live = async (): Promise<number> => {
      const page = await this.site.asked(() =>
        this.site.call<{ jobs: unknown[] }>('GET', '/v2/tasks?limit=1&state=queued,claimed,running,stale'),
      );
      return page.jobs.length;
    };
    while ((await live()) > 0) await aMoment();
  }

  /** Submits jobs until each consumer has heard of one over Redis since its stream was made. */
  async allHearOver(redis: OwnRedis): Promise<void> {
    const place = [`stream:orchestrator:inference_jobs:${POOL}`, `cg:inference:${POOL}`];
    const names = (await this.site.consumers()).map(({ name }) => name);
    const hear = async (): Promise<boolean> => {
      const seen = JSON.stringify(await redis.call('XINFO', 'CONSUMERS', ...place).catch(() => []));
      return names.every((name) => seen.includes(`"${name}"`));
    };
    while (!(await hear())) await aMoment();
  }

  /** What the jobs and the ledger of the consumers have to show after the end. */
  async check(): Promise<void> {
    const ended = await this.#allJobs();
    const lost = this.told.filter((id) => ended.get(id) !== 'succeeded');
    assert.deepEqual(lost, [], 'every acknowledged job has succeeded');
    const lines = linesOf(this.site.ledger);
    assert.deepEqual(ledgerProblems(lines), []);
    assert.equal(lines.filter((line) => line.startsWith('began ')).length, this.told.length);
    const workers = new Set(lines.map((line) => line.split(' ')[2]));
    assert.equal(workers.size, this.#children.length, 'each kind of consumer has worked');
    for (const { exitCode } of this.#children) assert.equal(exitCode, null);
  }

  async #allJobs(): Promise<Map<string, string>> {
    const found = new Map<string, string>();
    let cursor: string | undefined;
    do {
      const from = cursor === undefined ? '' : `&cursor=${cursor}`;
      type Page = { jobs: { job_id: string; state: string }[]; cursor?: string };
      const page: Page = await this.site.asked(() =>
        this.site.call<Page>('GET', `/v2/tasks?limit=500${from}`),
      );
      for (const { job_id, state } of page.jobs) found.set(job_id, state);
      cursor = page.cursor;
    } while (cursor !== undefined);
    return found;
  }
}

const linesOf = (ledger: string): string[] =>
  existsSync(ledger)
    ? readFileSync(ledger, 'utf8')
        .split('\n')
        .filter((line) => line !== '')
    : [];

/** What is wrong in a ledger of consumers none of which fell silent: each job is then begun and ended once. */
export function ledgerProblems(lines: readonly string[]): string[] {
  const begun = new Set<string>();
  const living = new Map<string, string>();
  const ended = new Set<string>();
  const found: string[] = [];
  for (const line of lines) {
    const [word, token = ''] = line.split(' ');
    const job = token.slice(0, token.lastIndexOf(':'));
    if (word === 'ended') {
      living.delete(job);
      ended.add(job);
    } else if (word === 'began') {
      if (begun.has(token)) found.push(`${token} was begun twice`);
      if (living.has(job)) found.push(`${token} was begun while ${living.get(job)} ran`);
      if (ended.has(job)) found.push(`${token} was begun after its job had ended`);
      begun.add(token);
      living.set(job, token);
    }
  }
  return found;
}

/** A port that leads to whichever server is the right one at the moment, as the address of a service does. */
export async function movingDoor(
  t: Pick<TestContext, 'after'>,
  to: () => number | undefined,
): Promise<number> {
  const sockets = new Set<Socket>();
  const server = createServer((near) => {
    const port = to();
    if (port === undefined) return void near.destroy();
    const far = createConnection(port, '127.0.0.1');
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(one);
      one
        .on('error', () => other.destroy())
        .on('close', () => {
          sockets.delete(one);
          other.destroy();
        });
      one.pipe(other);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  const address = server.address();
  return typeof address === 'object' && address ? address.port : 0;
}
