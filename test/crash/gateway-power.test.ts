/**
 * Real power loss under brain and gateway: their file system is shut down at a random instant, with everything that was
 * not synced, and mounted again. The provider's ledger is outside. POWER_CYCLES sets how often, POWER_SEED at which
 * instants.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, fork } from 'node:child_process';
import fs from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { FakeOpenAi } from '../fakes/providers/openai.ts';
import { Ext4Image, powerLossMissing } from './ext4-image.ts';
import { scratchFolder } from './folders.ts';
import type { PowerNews, PowerOrder } from './gateway/power-news.ts';
import { seededRandom } from './steady-env.ts';

const MAIN = join(import.meta.dirname, 'gateway', 'power-main.ts');
const CYCLES = Number(process.env['POWER_CYCLES'] ?? 3);
const CONTROL_CYCLES = 3;
const SEED = Number(process.env['POWER_SEED'] ?? 1);
const SHORTEST_MS = 20;
const LONGEST_MS = 500;
const LIMIT_MS = 120_000 + CYCLES * 30_000;
/** Calls are answered together, every so often: at any instant some of them are billed and not answered. */
const ANSWER_EVERY_MS = 25;

const scratch = scratchFolder('orchd-gateway-power-');
const skip = powerLossMissing(join(scratch, 'try')) ?? false;
const provider = new FakeOpenAi(join(scratch, 'bills.jsonl'));
let image: Ext4Image | undefined;
let child: ChildProcess | undefined;
let isAnswering = true;

after(async () => {
  child?.kill('SIGKILL');
  await provider.stop();
  image?.dispose();
  fs.rmSync(scratch, { recursive: true, force: true });
});

/** A machine with a brain and a gateway, whose power is cut again and again. */
class Machine {
  readonly acked: string[] = [];
  /** Jobs for which a person has ordered another try. */
  readonly ordered = new Set<string>();
  readonly #disk: Ext4Image;
  readonly #name: string;
  readonly #env: Record<string, string>;
  #cycle = 0;

  constructor(disk: Ext4Image, name: string, env: Record<string, string> = {}) {
    this.#disk = disk;
    this.#name = name;
    this.#env = env;
  }

  /** Says what has become of all jobs so far, and then works until the power goes. */
  async cut(instant: number): Promise<Record<string, string>> {
    const running = await this.#start();
    const states = await this.#rest(running, { is: 'settle', ids: this.acked });
    const first = this.acked.length;
    // With lies nothing may end: the index of ended jobs is synced, and would tell that the log has lost its end.
    isAnswering = this.#env['POWER_LIES'] === undefined;
    running.send({ is: 'load', cycle: `${this.#name}-${++this.#cycle}` } satisfies PowerOrder);
    while (this.acked.length === first) {
      assert.equal(running.exitCode ?? running.signalCode, null, 'brain and gateway have ended');
      await sleep(5);
    }
    await sleep(SHORTEST_MS + instant * (LONGEST_MS - SHORTEST_MS));
    this.#disk.shutdown();
    await this.#stop(running);
    isAnswering = true;
    return states;
  }

  /** Says what has become of all jobs, first by itself, and then after a person has ordered another try of what is held. */
  async *end(): AsyncGenerator<Record<string, string>> {
    const running = await this.#start();
    const states = await this.#rest(running, { is: 'settle', ids: this.acked });
    yield states;
    for (const id of this.acked) if (states[id] === 'stale') this.ordered.add(id);
    yield this.#rest(running, { is: 'retry', ids: this.acked });
    await this.#stop(running);
  }

  problems(states: Record<string, string>): string[] {
    const bills = provider.ledger.bills.filter(({ prompt }) => prompt.startsWith(`${this.#name}-`));
    const found = Object.entries(states).flatMap(([id, state]) => {
      const times = bills.filter(({ prompt }) => prompt === id).length;
      const allowed = this.ordered.has(id) ? 2 : 1;
      return [
        ...(state === 'succeeded' || state === 'stale' ? [] : [`${id} is ${state}`]),
        ...(times > allowed ? [`${id} was billed ${times} times`] : []),
        ...(state === 'succeeded' && times === 0 ? [`${id} has an answer that nobody gave`] : []),
      ];
    });
    // Without keep a call has no tag.
    const tags = bills.map(({ tag }) => tag).filter((tag) => tag !== null);
    const twice = tags.filter((tag, at) => tags.indexOf(tag) !== at);
    return [...found, ...twice.map((tag) => `the token ${tag} was billed twice`)];
  }

  async #start(): Promise<ChildProcess> {
    this.#disk.mount();
    const started = fork(MAIN, [join(this.#disk.mountPoint, this.#name), provider.url], {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      env: { ...process.env, NODE_OPTIONS: '', ...this.#env },
    });
    child = started;
    const opened = Promise.withResolvers<void>();
    started.on('message', (news: PowerNews) => {
      if (news.is === 'acked') this.acked.push(news.id);
      if (news.is === 'open') opened.resolve();
    });
    started.on('exit', () => opened.reject(new Error('brain and gateway do not start')));
    await opened.promise;
    return started;
  }

  #rest(running: ChildProcess, order: PowerOrder): Promise<Record<string, string>> {
    return new Promise((resolve, reject) => {
      running.on('exit', () => reject(new Error('brain and gateway have ended')));
      running.on('message', (news: PowerNews) => {
        if (news.is === 'at-rest') resolve(news.states);
      });
      running.send(order);
    });
  }

  async #stop(running: ChildProcess): Promise<void> {
    const ended = new Promise((resolve) => running.on('close', resolve));
    running.kill('SIGKILL');
    await ended;
    await this.#disk.unmountWhenFree();
  }
}

describe('power loss under brain and gateway', { skip }, () => {
  const random = seededRandom(SEED);
  let answering: NodeJS.Timeout;

  before(async () => {
    image = new Ext4Image(scratch);
    await provider.start();
    answering = setInterval(() => {
      if (!isAnswering) return;
      provider.stage.release('received');
      provider.stage.hold('received');
    }, ANSWER_EVERY_MS);
  });
  after(() => clearInterval(answering));

  test('no job is lost, no token is billed twice, and no job is billed again while it is held', {
    timeout: LIMIT_MS,
  }, async () => {
    const machine = new Machine(image as Ext4Image, 'true');
    const problems: string[] = [];
    const check = (states: Record<string, string>, when: string): void => {
      problems.push(...machine.problems(states).map((problem) => `${when}, seed ${SEED}: ${problem}`));
    };
    for (let n = 1; n <= CYCLES; n++) check(await machine.cut(random.next()), `before power loss ${n}`);
    let last: Record<string, string> = {};
    for await (const states of machine.end()) {
      check(states, 'at the end');
      last = states;
    }
    const { acked, ordered } = machine;
    console.log(`# ${CYCLES} power losses, ${acked.length} jobs, ${ordered.size} held for a person`);
    assert.deepEqual(problems, []);
    assert.deepEqual(
      acked.filter((id) => last[id] !== 'succeeded'),
      [],
      'every job has its answer',
    );
    assert.ok(acked.length > CYCLES, 'too little was acknowledged to tell anything');
  });

  test('and the harness would notice: where the syncs of both lie, jobs are billed again', async () => {
    const machine = new Machine(image as Ext4Image, 'lie', { POWER_LIES: '1' });
    let cycles = 0;
    let problems: string[] = [];
    for (; cycles <= CONTROL_CYCLES && problems.length === 0; cycles++)
      problems = machine.problems(await machine.cut(random.next()));
    console.log(`# with a lying sync, after ${cycles} power losses: ${problems.slice(0, 3).join('; ')}`);
    assert.ok(problems.some((problem) => /was billed \d+ times/.test(problem)));
  });
});
