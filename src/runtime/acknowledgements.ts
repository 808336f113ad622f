/**
 * Tells executors what they may drop: results whose end is durable, and the text of executions whose session was deleted. A
 * brain that dies before an end is durable would find neither the end in its store nor the result at the executor, and run
 * the job again.
 *
 * A1  At most MAX_UNDER_WAY orders are under way to one backend. A target has few connections, which kills and inspections
 *     need too, and refuses requests beyond them.
 * A2  At most MAX_WAITING wait for one backend; the oldest gives way to a new one, as if it had got no answer.
 * A3  An order that gets no answer is repeated at the sweeps; the next brain finds it out by itself (reconciliation.ts).
 */
import { mayBeErased } from '../core/attempts/ending.ts';
import type { Engine } from '../core/engine/engine.ts';
import { commanderOf } from '../core/state/state.ts';
import { crashpoint } from '../kit/crashpoint.ts';
import type { Change } from '../model/records.ts';
import type { AttemptState } from '../model/states.ts';
import type { BackendDirectory } from './backend-directory.ts';
import type { EffectRunner } from './effect-runner.ts';

/** Half of the connections to one target, see OUTBOUND_LIMITS. */
export const MAX_UNDER_WAY = 32;
export const MAX_WAITING = 10_000;
/** The most orders without an answer; beyond, the oldest are left to the limits of their executors. */
const MAX_MISSED = 10_000;
/** Erasures that are under way at one time. */
const ERASED_AT_ONCE = 16;

export interface AcknowledgementsParts {
  readonly engine: Pick<Engine, 'state'>;
  readonly runner: Pick<EffectRunner, 'stopped' | 'run'>;
  readonly backends: Pick<BackendDirectory, 'get'>;
}

/** `erase` is an acknowledgement that also erases what was said. */
type Order = 'ack' | 'erase';

/** An attempt that is closed, and its backend. */
export interface ClosedAttempt {
  readonly token: string;
  readonly backend: string;
}

/** The orders for one backend. */
interface Line {
  /** By token, in the order in which they came. */
  readonly waiting: Map<string, Order>;
  underWay: number;
}

export class Acknowledgements {
  readonly #parts: AcknowledgementsParts;
  readonly #lines = new Map<string, Line>();
  /** The orders without an answer by backend and token. */
  readonly #missed = new Map<string, Map<string, Order>>();
  #missedCount = 0;

  constructor(parts: AcknowledgementsParts) {
    this.#parts = parts;
  }

  /** Acknowledges the attempts that these durable changes have closed. */
  closed(changes: readonly Change[]): void {
    const { runner, engine } = this.#parts;
    if (runner.stopped) return;
    for (const { kind, id: token, after } of changes) {
      if (kind !== 'attempt' || !after || !isClosed(after.state)) continue;
      const entry = engine.state.jobs.get(after.job);
      // Nothing that a cancelled job of a session has said is kept.
      this.send(after.backend, token, entry && mayBeErased(entry) ? 'erase' : 'ack');
    }
  }

  /** A backend that is gone has taken all that it had with it. */
  send(backend: string, token: string, order: Order = 'ack'): void {
    const { runner, backends } = this.#parts;
    if (runner.stopped || !backends.get(backend)) return;
    const line = this.#lines.get(backend) ?? { waiting: new Map(), underWay: 0 };
    this.#lines.set(backend, line);
    if (line.waiting.size === 0 && line.underWay < MAX_UNDER_WAY)
      return this.#begin(order, { token, backend }, line);
    line.waiting.set(token, order);
    if (line.waiting.size > MAX_WAITING) this.#giveWay(backend, line);
  }

  /** Erases what was said in these attempts; settles when every executor has answered, or was found not to. */
  async erase(attempts: readonly ClosedAttempt[]): Promise<void> {
    const left = [...attempts];
    const work = async (): Promise<void> => {
      for (let next = left.pop(); next; next = left.pop()) await this.#call('erase', next);
    };
    await Promise.all(Array.from({ length: Math.min(ERASED_AT_ONCE, left.length) }, work));
  }

  /** Repeats what got no answer, one order after the other at each backend, up to the first that gets none again. */
  sweep(): void {
    for (const [name, orders] of this.#missed) {
      let isTried = false;
      this.#parts.runner.run(`acknowledge again ${name}`, {
        // One try: the next sweep repeats it.
        isDue: () => !isTried,
        attempt: async () => {
          isTried = true;
          for (const [token, order] of [...orders])
            if (!(await this.#call(order, { token, backend: name }))) break;
          return true;
        },
      });
    }
  }

  #giveWay(name: string, { waiting }: Line): void {
    for (const [token, order] of waiting) {
      waiting.delete(token);
      return this.#note(name, token, order);
    }
  }

  #begin(order: Order, attempt: ClosedAttempt, line: Line): void {
    crashpoint('effect:before-ack');
    line.underWay++;
    void this.#call(order, attempt).then(() => {
      line.underWay--;
      this.#sendNext(attempt.backend, line);
    });
  }

  #sendNext(backend: string, line: Line): void {
    if (this.#parts.runner.stopped) return;
    for (const [token, order] of line.waiting) {
      if (line.underWay >= MAX_UNDER_WAY) return;
      line.waiting.delete(token);
      this.#begin(order, { token, backend }, line);
    }
    // Backends come and go; the line of one that is there is needed again at once.
    if (line.underWay === 0 && !this.#parts.backends.get(backend)) this.#lines.delete(backend);
  }

  /** Returns whether the executor has answered; false also for a backend that is gone. */
  async #call(order: Order, { token, backend: name }: ClosedAttempt): Promise<boolean> {
    const { backends, engine } = this.#parts;
    const backend = backends.get(name);
    if (!backend) return false;
    const who = commanderOf(engine.state);
    try {
      if (order === 'erase' && backend.erase) await backend.erase(token, who);
      else await backend.ack(token, who);
      this.#answered(name, token);
      return true;
    } catch {
      this.#note(name, token, order);
      return false;
    }
  }

  #answered(name: string, token: string): void {
    const orders = this.#missed.get(name);
    if (!orders?.delete(token)) return;
    this.#missedCount--;
    if (orders.size === 0) this.#missed.delete(name);
  }

  #note(name: string, token: string, order: Order): void {
    const orders = this.#missed.get(name) ?? new Map<string, Order>();
    const known = orders.get(token);
    if (known === undefined && this.#missedCount >= MAX_MISSED) this.#forgetOldest();
    if (known === undefined) this.#missedCount++;
    // An acknowledgement that was missed before does not make less of the order to erase.
    if (known !== 'erase') orders.set(token, order);
    this.#missed.set(name, orders);
  }

  #forgetOldest(): void {
    for (const [name, orders] of this.#missed)
      for (const token of orders.keys()) return this.#answered(name, token);
  }
}

/** An attempt that was given up is of no use to its executor either. */
export const isClosed = (state: AttemptState): boolean => state === 'ended' || state === 'abandoned';
