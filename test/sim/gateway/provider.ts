/** A provider in the simulated world. It bills each call that it accepts, and knows nothing of tokens that came twice. */
import type {
  Driver,
  DriverAbilities,
  DriverCall,
  EarlierCall,
} from '../../../src/daemons/gateway/driver.ts';
import { OrchdError } from '../../../src/model/errors.ts';
import type { ExecutionResult } from '../../../src/model/worker-wire.ts';
import type { World } from '../../fakes/world.ts';

/** One accepted call. */
export interface Bill {
  readonly tag: string;
  /** The body of the job, by which the test knows it. */
  readonly prompt: string;
  readonly startedAt: number;
  endedAt: number | undefined;
  outcome: 'succeeded' | 'failed' | 'cut' | undefined;
}

interface Call {
  readonly bill: Bill;
  readonly onEnd: Set<() => void>;
}

/** Probabilities of the faults of one call. */
export interface ProviderScript {
  readonly loseRequest: number;
  readonly loseId: number;
  readonly cut: number;
  readonly turnAway: number;
  readonly fail: number;
  readonly workMs: readonly [number, number];
}

const unknown = (): OrchdError => new OrchdError('UNKNOWN_OUTCOME', 'the connection broke');

export class SimProvider {
  readonly bills: Bill[] = [];
  readonly finds: DriverAbilities['finds'];
  script: ProviderScript;
  readonly #world: World;
  readonly #calls = new Map<string, Call>();

  constructor(world: World, finds: DriverAbilities['finds'], script: ProviderScript) {
    this.#world = world;
    this.finds = finds;
    this.script = script;
  }

  readonly driver = (): Driver => ({
    abilities: { finds: this.finds, keepsMs: 1e9, cancels: 'order', billsWhenCut: true },
    run: (call) => this.#run(call),
    resume: (call) => this.#resume(call),
    close: () => undefined,
  });

  /** The call that the provider runs now, if there is one. */
  get running(): number {
    return this.bills.filter(({ endedAt }) => endedAt === undefined).length;
  }

  async #run(call: DriverCall): Promise<ExecutionResult> {
    const { random } = this.#world;
    const { work } = call.request;
    const prompt = work.kind === 'completion' ? work.prompt : '';
    const isLost = random.chance(this.script.loseRequest);
    await this.#world.wait(random.between(0.1, 5));
    if (isLost) throw unknown();
    if (random.chance(this.script.turnAway))
      throw new OrchdError('RATE_LIMITED', 'later', { turnedAway: 'rate_limited', retryAfterMs: 50 });
    const made = this.#accept(call.tag, prompt);
    if (random.chance(this.script.loseId)) return this.#findAgain(call, undefined);
    await this.#world.wait(random.between(0.1, 5));
    if (this.finds !== 'nothing') await call.keepId(idOf(call.tag));
    call.emit({ text: 'so ' });
    const isCut = random.chance(this.script.cut);
    if (isCut) {
      await this.#world.wait(random.between(0, 50));
      return this.#findAgain(call, idOf(call.tag));
    }
    return this.#end(made, call.signal);
  }

  async #resume(call: EarlierCall): Promise<ExecutionResult> {
    return this.#findAgain(call, call.id);
  }

  async #findAgain(
    { tag, signal }: Pick<DriverCall, 'tag' | 'signal'>,
    id: string | undefined,
  ): Promise<ExecutionResult> {
    await this.#world.wait(this.#world.random.between(0.1, 20));
    const canFind = this.finds === 'token' || (this.finds === 'id' && id !== undefined);
    const call = canFind ? this.#calls.get(tag) : undefined;
    if (!call) throw unknown();
    return this.#end(call, signal);
  }

  #accept(tag: string, prompt: string): Call {
    const { random } = this.#world;
    const bill: Bill = { tag, prompt, startedAt: this.#world.now, endedAt: undefined, outcome: undefined };
    this.bills.push(bill);
    this.#world.note(`bill ${prompt}`);
    const call: Call = { bill, onEnd: new Set() };
    this.#calls.set(tag, call);
    const [least, most] = this.script.workMs;
    const outcome = random.chance(this.script.fail) ? 'failed' : 'succeeded';
    this.#world.after(random.between(least, most), () => this.#over(call, outcome));
    return call;
  }

  #over({ bill, onEnd }: Call, outcome: NonNullable<Bill['outcome']>): void {
    if (bill.endedAt !== undefined) return;
    bill.endedAt = this.#world.now;
    bill.outcome = outcome;
    for (const wake of onEnd) wake();
  }

  /** Waits for the end of a call; an abort ends it. */
  async #end(call: Call, signal: AbortSignal): Promise<ExecutionResult> {
    const stop = (): void => this.#over(call, 'cut');
    if (signal.aborted) stop();
    signal.addEventListener('abort', stop);
    if (call.bill.endedAt === undefined) await new Promise<void>((resolve) => call.onEnd.add(resolve));
    await this.#world.wait(this.#world.random.between(0.1, 5));
    if (call.bill.outcome === 'cut') throw new OrchdError('CANCELLED');
    if (call.bill.outcome === 'failed')
      throw new OrchdError('EXECUTION_FAILED', 'the model failed', { retriable: true });
    return { text: call.bill.prompt, usage: { prompt_tokens: 1, completion_tokens: 1 } };
  }
}

const idOf = (tag: string): string => `id-${tag}`;
