/** The suite's client of a backend: calls it as one owner at one epoch. */

import assert from 'node:assert/strict';
import type {
  Backend,
  ExecutionOutcome,
  ExecutionStatus,
  Inspection,
  KillHow,
  KillReply,
  OfferReply,
} from '../../core/ports/backend.ts';
import { tokenOf } from '../../model/records.ts';
import type { Commander } from '../../model/worker-wire.ts';
import type { BackendHarness, SteeredExecution } from './harness.ts';
import { type OfferedWork, offerOf } from './offers.ts';
import { contentsOf, outcomeOf, Reader, textOf } from './reader.ts';

export class Brain {
  readonly who: Commander;
  readonly #harness: BackendHarness;
  readonly #ownBackend: Backend | undefined;

  constructor(
    harness: BackendHarness,
    who: Commander = { owner: `brain-${harness.id}`, epoch: 1 },
    ownBackend?: Backend,
  ) {
    this.#harness = harness;
    this.who = who;
    this.#ownBackend = ownBackend;
  }

  get #backend(): Backend {
    return this.#ownBackend ?? this.#harness.backend;
  }

  /** The next leader of the same store: the same owner with a higher epoch. */
  successor(): Brain {
    return new Brain(this.#harness, { ...this.who, epoch: this.who.epoch + 1 });
  }

  /** A brain on a copy of the store that was opened just as often: the same owner and epoch, another nonce. */
  onCopy(nonce: string): Brain {
    return new Brain(this.#harness, { ...this.who, nonce });
  }

  /** A brain with a store of its own, so another owner. */
  async otherOwner(): Promise<Brain> {
    const who = { owner: `other-${this.#harness.id}`, epoch: 1 };
    return new Brain(this.#harness, who, await this.#harness.connectOther?.());
  }

  token(job: string): string {
    return tokenOf(`${job}-${this.#harness.id}`, 1);
  }

  offer(token: string, work: Partial<OfferedWork> = {}): Promise<OfferReply> {
    const { workType } = this.#harness;
    this.execution(token);
    const { type = workType, payloadText = '"payload"', registry, hash } = work;
    const offered = offerOf(this.who, token, { type, payloadText, registry, hash });
    return this.#settled(this.#backend.offer(offered));
  }

  execution(token: string): SteeredExecution {
    return this.#harness.execution(token);
  }

  /** Offers a job, expects it to be accepted, and waits until its work has begun. */
  async start(job: string): Promise<string> {
    const token = this.token(job);
    assert.deepEqual(await this.offer(token), { is: 'accepted' });
    await this.#settled(this.execution(token).begun);
    return token;
  }

  /** Runs a job to its successful end, without acknowledging it. */
  async finish(job: string, text = 'done\n'): Promise<string> {
    const token = await this.start(job);
    await this.execution(token).say(text);
    await this.execution(token).succeed();
    await this.outcome(token);
    return token;
  }

  read(token: string, from = 0): Reader {
    return new Reader((on, signal) => this.#backend.follow(token, from, on, this.who, signal));
  }

  async readAll(
    token: string,
    from = 0,
  ): Promise<{ contents: unknown[]; text: string; outcome: ExecutionOutcome }> {
    const reader = this.read(token, from);
    const outcome = outcomeOf(await this.#settled(reader.end));
    return { contents: contentsOf(reader.events), text: textOf(reader.events), outcome };
  }

  async outcome(token: string): Promise<ExecutionOutcome> {
    return (await this.readAll(token)).outcome;
  }

  inspect(...tokens: string[]): Promise<Inspection> {
    return this.#settled(this.#backend.inspect(tokens, this.who));
  }

  async status(token: string): Promise<ExecutionStatus | undefined> {
    return (await this.inspect(token)).known.get(token);
  }

  kill(token: string, how?: KillHow): Promise<KillReply> {
    return this.#settled(this.#backend.kill(token, this.who, how));
  }

  ack(token: string): Promise<void> {
    return this.#settled(this.#backend.ack(token, this.who));
  }

  erase(token: string): Promise<void> {
    const backend = this.#backend;
    return this.#settled(backend.erase ? backend.erase(token, this.who) : backend.ack(token, this.who));
  }

  #settled<T>(promise: Promise<T>): Promise<T> {
    return this.#harness.within(promise);
  }
}
