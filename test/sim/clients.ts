/**
 * Those who ask. They keep what they were told; a call that does not come back is unknown to them, and they ask
 * again only where that is safe.
 */
import { OrchdError } from '../../src/model/errors.ts';
import type { JobView } from '../../src/model/http/jobs.ts';
import type { SubmitRequest } from '../../src/model/submit.ts';
import type { SeededRandom, World } from '../fakes/world.ts';
import type { SimBrain } from './brain.ts';

const CALL_TIMEOUT_MS = 3000;

export interface Told {
  readonly id: string;
  readonly request: SubmitRequest;
  /** When the job was acknowledged. */
  readonly at: number;
  /** The end that a client was told of, and how often the job had been redriven by then. */
  ended: { state: string; redrives: number; result: string; at: number } | undefined;
  redrives: number;
}

export class Clients {
  readonly #world: World;
  readonly #brain: SimBrain;
  readonly #random: SeededRandom;
  /** Acknowledged jobs: the brain must not lose one of them. */
  readonly told = new Map<string, Told>();
  refusals = 0;
  active = 0;

  constructor(world: World, brain: SimBrain) {
    this.#world = world;
    this.#brain = brain;
    this.#random = world.random;
  }

  /** A backup of this instant was restored: nobody can be held to what was said after it. */
  forgetAfter(backupAt: number): void {
    for (const told of [...this.told.values()]) {
      if (told.at >= backupAt) this.told.delete(told.id);
      else if (told.ended && told.ended.at >= backupAt) told.ended = undefined;
    }
  }

  /** Submits a job some time from now and watches it a little. `body` is in its payload, and in its result. */
  plan(at: number, number: number, body = number): void {
    const request = this.#request(number, body);
    this.active++;
    this.#world.after(at, () => {
      void this.#live(request).finally(() => {
        this.active--;
      });
    });
  }

  async #live(request: SubmitRequest): Promise<void> {
    this.#waitForOthers(request);
    const told = await this.#submit(request);
    if (!told) return;
    if (this.#random.chance(0.15)) {
      await this.#world.wait(this.#random.between(0, 2000));
      await this.#call((brain) => brain.cancel(told.id));
    }
    if (this.#random.chance(0.5)) await this.#watch(told);
    if (told.ended?.state === 'dead' && this.#random.chance(0.5)) await this.#redrive(told);
  }

  /** Some jobs wait for up to three jobs that were acknowledged before. */
  #waitForOthers(request: SubmitRequest): void {
    const random = this.#random;
    const known = [...this.told.keys()].filter((id) => id !== request.job_id);
    if (known.length === 0 || !random.chance(0.25)) return;
    const after = Array.from({ length: 1 + random.int(3) }, () => known[random.int(known.length)] as string);
    request.after = [...new Set(after)];
    if (random.chance(0.3)) request.after_policy = 'ended';
  }

  async #submit(request: SubmitRequest): Promise<Told | undefined> {
    for (let tries = 0; tries < 40; tries++) {
      const answer = await this.#call((brain) => brain.submit(request));
      if (answer instanceof OrchdError && !answer.retriable && answer.code !== 'STORE_FAILED') {
        this.refusals++;
        return undefined;
      }
      if (answer && !(answer instanceof Error)) return this.#keep(answer.job_id, request);
      // Without a name of its own a second submit would be a second job.
      if (answer === undefined && request.job_id === undefined && request.key === undefined) return undefined;
      await this.#world.wait(this.#random.between(50, 800));
    }
    return undefined;
  }

  #keep(id: string, request: SubmitRequest): Told {
    let told = this.told.get(id);
    if (!told) {
      told = { id, request, at: this.#world.now, ended: undefined, redrives: 0 };
      this.told.set(id, told);
    }
    return told;
  }

  async #watch(told: Told): Promise<void> {
    const job = await this.#call((brain) => brain.wait(told.id), 20_000);
    if (job && !(job instanceof Error)) told.ended = { ...endOf(job, told.redrives), at: this.#world.now };
  }

  async #redrive(told: Told): Promise<void> {
    // Counted before it is sent: whether it arrived is not known when the call does not come back.
    told.redrives++;
    await this.#call((brain) => brain.redrive(told.id));
  }

  /** The answer, the refusal, or undefined when nothing came back. */
  async #call<T>(
    run: (brain: NonNullable<SimBrain['up']>) => Promise<T>,
    timeoutMs = CALL_TIMEOUT_MS,
  ): Promise<T | Error | undefined> {
    const brain = this.#brain.up;
    if (!brain) return undefined;
    const answer = run(brain).catch((error: Error) => {
      if (error instanceof OrchdError && error.code !== 'SHUTTING_DOWN') return error;
      return undefined;
    });
    return Promise.race([answer, this.#world.wait(timeoutMs).then(() => undefined)]);
  }

  #request(number: number, body: number): SubmitRequest {
    const random = this.#random;
    const request: SubmitRequest = {
      type: 'work',
      payload: { number: body, text: 'x'.repeat(random.chance(0.15) ? 6000 : random.int(200)) },
      priority: random.chance(0.3) ? 'interactive' : 'batch',
      agent: `agent-${random.int(3)}`,
      timeout_ms: 2000,
    };
    if (random.chance(0.15)) request.payload = { ...(request.payload as object), steps: 1 + random.int(3) };
    if (random.chance(0.6)) request.job_id = `job-${number}`;
    if (random.chance(0.3)) request.key = `key-${random.int(8)}`;
    if (random.chance(0.2)) request.session_id = `session-${random.int(3)}`;
    if (random.chance(0.1))
      request.not_before = Math.floor(
        this.#world.trueTime + random.between(0, random.chance(0.5) ? 5000 : 90_000),
      );
    if (random.chance(0.1)) request.deadline_ms = Math.ceil(random.between(100, 8000));
    if (random.chance(0.3)) request.batch = `batch-${random.int(3)}`;
    if (random.chance(0.2)) request.score = random.int(5);
    if (random.chance(0.2)) request.max_tries = 1 + random.int(4);
    return request;
  }
}

export function endOf(job: JobView, redrives: number): Omit<NonNullable<Told['ended']>, 'at'> {
  return { state: job.state, redrives, result: JSON.stringify(job.result ?? null) };
}
