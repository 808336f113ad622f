/** Conversations with the four seats of a gateway in a process of its own, whose provider keeps threads. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { type JobView, OrchdClient } from '../../src/client/index.ts';
import { type SaidMessage, ThreadProvider } from '../fakes/thread-provider.ts';
import { isDatabase, tempFolder } from './flow-kit.ts';
import { GatewayProcess } from './gateway-process.ts';
import { type ServerProcess, serve, testFolder } from './server-process.ts';
import { eventually } from './site-client.ts';

const SEATS = ['a', 'b', 'c', 'd'];
/** One more than there are seats, so that some wait. */
const AT_ONCE = 5;
export const TURNS = 5;

export class StickySite {
  readonly provider = new ThreadProvider();
  /** What was said in each conversation, as its client knows it. */
  readonly said = new Map<string, SaidMessage[]>();
  readonly #t: TestContext;
  readonly #data: string;
  readonly #folder: string;
  #gateway!: GatewayProcess;
  #brain!: ServerProcess;

  constructor(t: TestContext, data: string) {
    this.#t = t;
    this.#data = data;
    this.#folder = `${testFolder(t)}/data`;
  }

  async start(): Promise<this> {
    await this.provider.start();
    this.#t.after(() => this.provider.stop());
    this.#gateway = await GatewayProcess.start(this.#t, { folder: tempFolder(this.#t) });
    await this.#order();
    await this.#startBrain('0');
    return this;
  }

  get url(): string {
    return this.#brain.url;
  }

  get client(): OrchdClient {
    return new OrchdClient({ url: this.url });
  }

  async killBrain(): Promise<void> {
    await this.#brain.kill();
    await this.#startBrain(this.#brain.port);
  }

  async killGateway(): Promise<void> {
    const { folder, url } = this.#gateway;
    await this.#gateway.kill();
    this.#gateway = await GatewayProcess.start(this.#t, { folder, port: new URL(url).port });
    await this.#order();
  }

  /** Conversations of TURNS turns, some at a time. */
  async converse(names: readonly string[]): Promise<void> {
    const left = [...names];
    const next = async (): Promise<void> => {
      for (let name = left.shift(); name !== undefined; name = left.shift())
        // A gateway may die before its call has reached the provider: then nobody has heard the question.
        for (let turn = 1; turn <= TURNS; turn++)
          await this.ask(name, `${name}.${turn}`, { on_unknown: 'retry' });
    };
    await Promise.all(Array.from({ length: AT_ONCE }, next));
  }

  /** Asks a question in a conversation, and waits for the answer as a client does that outlives the brain. */
  async ask(name: string, question: string, fields: object = {}): Promise<JobView> {
    const said = this.said.get(name) ?? [];
    this.said.set(name, said);
    said.push({ role: 'user', content: question });
    const task = {
      job_id: question,
      session_id: name,
      model: 'm',
      messages: said.map((each) => ({ ...each })),
      ...fields,
    };
    await eventually('it is admitted', () => this.client.submit(task));
    const job = await eventually(`${question} has ended`, async () => {
      const view = await this.client.get(question);
      return ['succeeded', 'dead', 'cancelled'].includes(view.state) && view;
    });
    assert.equal(job.state, 'succeeded', JSON.stringify(job.error));
    said.push({ role: 'assistant', content: (job.result as { text: string }).text });
    return job;
  }

  /** The seat is taken out of the gateway, which may be while the brain runs. */
  withoutSeat(gone: string): Promise<void> {
    return this.#gateway.follow(
      SEATS.filter((name) => name !== gone).map((name) => this.provider.seat(name)),
    );
  }

  /** A seat was sent what was new to it, and everything where it had heard nothing. */
  assertSentOnce(): void {
    /** The messages that a seat has heard of a conversation. */
    const heard = new Map<string, number>();
    for (const { seat, messages, thread } of this.provider.requests) {
      const question = messages.at(-1)?.content ?? '';
      const [name, turn] = question.split('.');
      const before = heard.get(`${name} ${seat}`) ?? 0;
      const all = 2 * Number(turn) - 1;
      assert.deepEqual([messages.length, thread !== undefined], [all - before, before > 0], question);
      heard.set(`${name} ${seat}`, all + 1);
    }
  }

  /** Turns after the first one that were asked on the seat of the turn before, and all of these. */
  get hits(): { readonly hits: number; readonly later: number } {
    const seats = new Map<string, string>();
    const counts = { hits: 0, later: 0 };
    for (const { seat, messages } of this.provider.requests) {
      const [name = ''] = (messages.at(-1)?.content ?? '').split('.');
      const before = seats.get(name);
      seats.set(name, seat);
      if (before === undefined) continue;
      counts.later++;
      if (before === seat) counts.hits++;
    }
    return counts;
  }

  /** Every thread has heard its conversation from the beginning, each message once and in order, and nothing else. */
  assertHeard(): void {
    for (const [id, { heard }] of this.provider.threads) {
      const [name = ''] = (heard[0]?.content ?? '').split('.');
      const said = this.said.get(name);
      assert.deepEqual(heard, said?.slice(0, heard.length), `what ${id} has heard of ${name}`);
    }
  }

  /** No question was asked twice, and none was lost. */
  assertAskedOnce(): void {
    const asked = this.provider.requests.map(({ messages }) => messages.at(-1)?.content ?? '');
    const questions = [...this.said.values()].flatMap((said) =>
      said.filter(({ role }) => role === 'user').map(({ content }) => content),
    );
    assert.deepEqual(asked.toSorted(), questions.toSorted());
  }

  async #startBrain(port: string): Promise<void> {
    const config = {
      pool: { url: this.#gateway.url },
      orchestrator: { recovery: { holder_lost_ms: 500, sweep_interval_ms: 100 } },
      ...(isDatabase(this.#data) && { store: 'mariadb', mariadb: { url: this.#data } }),
    };
    this.#brain = await serve(this.#t, { data: this.#folder, config, port });
  }

  #order(): Promise<void> {
    return this.#gateway.follow(SEATS.map((name) => this.provider.seat(name)));
  }
}

export const names = (count: number): readonly string[] => Array.from({ length: count }, (_, n) => `c${n}`);
