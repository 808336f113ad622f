/**
 * Consumers that misbehave on purpose: they lose requests and answers, report twice, report for others, stall for longer than
 * their lease and go on, and die. They keep a ledger of everything they really ran.
 */
import type { BackendInfo } from '../../src/core/ports/backend.ts';
import { backendOfPool } from '../../src/model/consumer-record.ts';
import { OrchdError } from '../../src/model/errors.ts';
import type { ConsumerResults } from '../../src/model/http/consumers.ts';
import type { Consumers } from '../../src/runtime/consumers/consumers.ts';
import { engineOf } from '../fakes/engine-of.ts';
import type { Run } from '../fakes/executor.ts';
import type { World } from '../fakes/world.ts';
import type { SimBrain } from './brain.ts';

const POOL = 'sim';
export const CONSUMER_POOL = backendOfPool(POOL);
const TTL_MS = 3000;
const HEARTBEAT_MS = 500;
const CALL_TIMEOUT_MS = 1500;
const CLAIM_WAIT_MS = 300;
/** A claim is repeated this often with the same number, then given up. */
const CLAIM_TRIES = 3;
const SLOTS = 2;

type Result = ConsumerResults['results'][number];

interface ClaimedJob {
  readonly token: string;
  readonly job_id: string;
  readonly payload: { readonly number: number };
}

export class SimConsumer {
  /** Runs of which nobody else could have known that they went on: their consumer was silent. */
  readonly stalled: Run[] = [];
  readonly runs: Run[] = [];
  readonly forgets = 0;
  readonly #world: World;
  readonly #brain: SimBrain;
  readonly #name: string;
  #faults = { loseRequest: 0, loseReply: 0, repeat: 0, lie: 0, fail: 0 };
  /** Grows when the process dies: whatever an earlier one had under way comes to nothing. */
  #life = 0;
  #id: string | undefined;
  #claims = 0;
  #claimed = 0;
  #stalledUntil = 0;
  #answeredAt = 0;
  readonly #running = new Map<string, Run>();
  readonly #results = new Map<string, Result>();

  constructor(world: World, brain: SimBrain, name: string) {
    this.#world = world;
    this.#brain = brain;
    this.#name = name;
    const some = (most: number): number => (world.random.chance(0.5) ? world.random.between(0, most) : 0);
    this.#faults = {
      loseRequest: some(0.15),
      loseReply: some(0.15),
      repeat: some(0.3),
      lie: some(0.3),
      fail: some(0.2),
    };
  }

  /** For the check of ledgers: those runs count whose consumer was heard all the time. */
  get ledger(): Run[] {
    return this.runs.filter((run) => !this.stalled.includes(run));
  }

  get info(): BackendInfo {
    return { name: CONSUMER_POOL, paid: false } as BackendInfo;
  }

  isBusyWith(token: string): boolean {
    return this.#running.has(token) || this.#results.has(token);
  }

  begin(): void {
    void this.#live(this.#life);
  }

  heal(): void {
    this.#faults = { loseRequest: 0, loseReply: 0, repeat: 0, lie: 0, fail: 0 };
  }

  /** The process does not run for a while, often for longer than its lease. */
  stall(): void {
    this.#stalledUntil = this.#world.now + this.#world.random.between(500, 3 * TTL_MS);
  }

  /** The brain believes that so much time has passed, and may call a consumer silent that was heard a moment ago. */
  timeJumps(byMs: number): void {
    if (byMs < TTL_MS - HEARTBEAT_MS) return;
    for (const run of [...this.#running.values(), ...this.#unreported()])
      if (!this.stalled.includes(run)) this.stalled.push(run);
  }

  /** Runs that have ended, and whose results were not acknowledged. */
  #unreported(): Run[] {
    return this.runs.filter(({ token }) => this.#results.has(token));
  }

  /** Nobody hears of these results any more. */
  #loseResults(): void {
    for (const run of this.#unreported()) run.outcome = 'died';
    this.#results.clear();
  }

  die(): void {
    this.#life++;
    this.#id = undefined;
    this.#loseResults();
    for (const token of [...this.#running.keys()]) this.#over(token, 'died');
    const life = this.#life;
    this.#world.after(this.#world.random.between(100, 2000), () => void this.#live(life));
  }

  async #live(life: number): Promise<void> {
    void this.#beat(life);
    while (life === this.#life) {
      await this.#whenAwake();
      if (this.#id === undefined) await this.#register(life);
      else {
        await this.#report(life);
        await this.#claim(life);
      }
      await this.#world.wait(this.#world.random.between(10, 200));
    }
  }

  async #whenAwake(): Promise<void> {
    while (this.#world.now < this.#stalledUntil) await this.#world.wait(this.#stalledUntil - this.#world.now);
  }

  async #register(life: number): Promise<void> {
    const body = {
      pool: POOL,
      name: `${this.#name}-${life}`,
      slots: SLOTS,
      types: ['work'],
      lease_ttl_ms: TTL_MS,
      consumer_id: this.#world.random.hex(16),
    };
    const answer = await this.#call(life, (consumers) => consumers.register(body));
    if (!answer || answer instanceof OrchdError || life !== this.#life) return;
    this.#id = answer.consumer_id;
    this.#claims = 0;
    this.#claimed = 0;
  }

  async #claim(life: number): Promise<void> {
    const id = this.#id;
    const max = SLOTS - this.#running.size - this.#results.size;
    if (max <= 0 || id === undefined) return;
    const claim = ++this.#claims;
    for (let tries = 0; tries < CLAIM_TRIES; tries++) {
      const body = { claim, max, wait_ms: CLAIM_WAIT_MS };
      const answer = await this.#call(life, (consumers) => consumers.claim(id, body, () => undefined));
      if (life !== this.#life || id !== this.#id) return;
      if (typeof answer !== 'string') continue;
      const { jobs } = JSON.parse(answer) as { jobs: readonly ClaimedJob[] };
      for (const job of jobs) this.#start(job);
      break;
    }
    this.#claimed = claim;
  }

  #start({ token, job_id: job, payload }: ClaimedJob): void {
    // A repeated claim.
    if (this.isBusyWith(token)) return;
    const world = this.#world;
    const run: Run = {
      owner: 'sim',
      token,
      job,
      startedAt: world.now,
      endedAt: undefined,
      outcome: undefined,
    };
    this.runs.push(run);
    this.#running.set(token, run);
    world.note(`consume ${token}`);
    void this.#work(run, payload.number);
  }

  async #work(run: Run, number: number): Promise<void> {
    const { random } = this.#world;
    await this.#world.wait(random.between(1, 1500));
    await this.#whenAwake();
    const { token } = run;
    if (this.#running.get(token) !== run) return;
    const hasFailed = random.chance(this.#faults.fail);
    this.#over(token, !hasFailed);
    this.#results.set(
      token,
      hasFailed
        ? { token, ok: false, error: { message: 'no', retriable: true } }
        : { token, ok: true, result: { ran: token, number, text: 'c' } },
    );
  }

  #over(token: string, outcome: Run['outcome']): void {
    const run = this.#running.get(token);
    this.#running.delete(token);
    if (!run) return;
    run.endedAt = this.#world.now;
    run.outcome = outcome;
    this.#noteSilence(run);
  }

  /** Nothing came from the consumer for as long as its lease: others may have run its jobs meanwhile. */
  #noteSilence(run: Run): void {
    if (this.#world.now - this.#answeredAt >= TTL_MS && !this.stalled.includes(run)) this.stalled.push(run);
  }

  async #report(life: number): Promise<void> {
    const id = this.#id;
    if (id === undefined) return;
    const results = [...this.#results.values()];
    const lie = this.#world.random.chance(this.#faults.lie) ? this.#lie() : undefined;
    if (lie) results.push(lie);
    if (results.length === 0) return;
    const times = this.#world.random.chance(this.#faults.repeat) ? 2 : 1;
    for (let n = 0; n < times; n++) {
      const answer = await this.#call(life, (consumers) => consumers.results(id, { results }));
      if (!answer || answer instanceof OrchdError || life !== this.#life) continue;
      for (const { token } of answer.results) this.#results.delete(token);
    }
  }

  /** A result of an attempt that somebody else has, or nobody. */
  #lie(): Result | undefined {
    const up = this.#brain.up;
    const open = up ? [...engineOf(up).state.open.keys()] : [];
    const token = this.#world.random.pick(['nobody:1', ...open]);
    return this.isBusyWith(token) ? undefined : { token, ok: true, result: { ran: 'a lie', number: -1 } };
  }

  async #beat(life: number): Promise<void> {
    while (life === this.#life) {
      await this.#whenAwake();
      const id = this.#id;
      if (id !== undefined) await this.#heartbeat(life, id);
      await this.#world.wait(HEARTBEAT_MS);
    }
  }

  async #heartbeat(life: number, id: string): Promise<void> {
    for (const run of this.#running.values()) this.#noteSilence(run);
    const held = [...this.#running.keys(), ...this.#results.keys()];
    const body = { held, claimed: this.#claimed };
    const answer = await this.#call(life, (consumers) => consumers.heartbeat(id, body));
    if (!answer || answer instanceof OrchdError || life !== this.#life) return;
    for (const token of answer.lost) {
      this.#over(token, 'cancelled');
      this.#results.delete(token);
    }
    for (const { token } of answer.stop) {
      if (!this.#running.has(token)) continue;
      this.#over(token, 'cancelled');
      this.#results.set(token, { token, cancelled: true });
    }
  }

  /** The answer, the refusal, or undefined when nothing came back. */
  async #call<T>(
    life: number,
    run: (consumers: Consumers) => Promise<T>,
  ): Promise<T | OrchdError | undefined> {
    const { random } = this.#world;
    const brain = this.#brain.up;
    if (!brain || random.chance(this.#faults.loseRequest)) {
      await this.#world.wait(random.between(10, 300));
      return undefined;
    }
    const sentAt = this.#world.now;
    const call = run(brain.consumers).catch((error: Error) =>
      error instanceof OrchdError && error.code !== 'SHUTTING_DOWN' ? error : undefined,
    );
    const answer = await Promise.race([call, this.#world.wait(CALL_TIMEOUT_MS).then(() => undefined)]);
    await this.#whenAwake();
    if (life !== this.#life || answer === undefined || random.chance(this.#faults.loseReply))
      return undefined;
    if (answer instanceof OrchdError && answer.code === 'CONSUMER_GONE') this.#gone();
    else this.#answeredAt = Math.max(this.#answeredAt, sentAt);
    return answer;
  }

  /** The brain does not know it: it ends what it runs, and registers anew. */
  #gone(): void {
    this.#id = undefined;
    this.#loseResults();
    for (const token of [...this.#running.keys()]) this.#over(token, 'died');
  }
}
