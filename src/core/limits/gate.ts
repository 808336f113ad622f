/**
 * What runs and what is spent in one scope, and whether another attempt may start there. Everything follows from the open
 * attempts and the spent record of the scope (docs/decisions/0030).
 *
 * G1  The cost of a scope with a hard budget never exceeds the budget: what is settled in the window and what open
 *     attempts hold is at most the budget, and an attempt holds at least what it will cost. Only a provider that bills
 *     more than the bound exceeds it.
 */
import type { SpentRecord } from '../../model/limit-records.ts';
import { BudgetWindow } from './budget-window.ts';
import { kindOf, type Limit } from './limit.ts';

const BROAD: ReadonlySet<string> = new Set(['global', 'model', 'pool', 'seat', 'mode']);

/** Shares of a budget, in percent, at which people are warned. */
const WARN_SHARES = [100, 80, 50] as const;

export class Gate {
  readonly name: string;
  readonly limit: Limit;
  /** Whether the gate holds up all jobs of a lane alike. */
  readonly isBroad: boolean;
  readonly isHard: boolean;
  readonly #window: BudgetWindow;
  /** Open attempts, also those that use no slot any more because their executor is gone. */
  open = 0;
  /** Open attempts that use a slot. */
  running = 0;
  /** Micro-units that open attempts hold. */
  reserved = 0;
  /** Micro-units that closed attempts have cost in the present window. */
  settled = 0;
  /** Groups of jobs that pass this gate, at whichever gate they wait; written by queue/, like `waiting`. */
  groups = 0;
  /** Jobs that wait at this gate. */
  waiting = 0;

  constructor(name: string, limit: Limit, now: number) {
    this.name = name;
    this.limit = limit;
    this.isBroad = BROAD.has(kindOf(name));
    this.isHard = limit.hard === true && limit.costBudget !== undefined;
    this.#window = new BudgetWindow(limit, now);
  }

  /** Whether the gate limits how many attempts may start, whatever they cost. */
  get limitsStarts(): boolean {
    return this.limit.running !== undefined;
  }

  /** How many more attempts may run. */
  get room(): number {
    return (this.limit.running ?? Number.POSITIVE_INFINITY) - this.running;
  }

  /** An attempt starts. Only gates with a rate count that; returns whether what is kept of the gate has changed. */
  noteStart(_now: number): boolean {
    return false;
  }

  /** Whether an attempt that holds so much may start now. */
  fits(cost: number): boolean {
    if (!this.isHard) return true;
    return this.settled + this.reserved + cost <= (this.limit.costBudget as number);
  }

  /** Whether it could start at some time, if nothing else was open. */
  couldFit(cost: number): boolean {
    if (!this.isHard) return true;
    const before = this.#window.start === undefined ? this.settled : 0;
    return before + cost <= (this.limit.costBudget as number);
  }

  /** When the budget starts anew. */
  get rollsAt(): number {
    return this.#window.end;
  }

  /** Returns whether a new window has begun. What open attempts hold counts in it too. */
  roll(now: number): boolean {
    if (!this.#window.roll(now)) return false;
    this.settled = 0;
    return true;
  }

  /** Brain time was stepped. Windows of budgets are parts of the calendar, and stay. */
  moveInstants(_byMs: number): void {}

  resume(record: SpentRecord): void {
    this.settled = this.#window.resume(record) ? (record.cost ?? 0) : 0;
  }

  /** What is kept of this gate for a later brain; undefined if nothing of it must be. */
  kept(): Pick<SpentRecord, 'cost' | 'window' | 'warned' | 'minute'> | undefined {
    if (this.limit.costBudget === undefined || this.settled === 0) return undefined;
    const { start } = this.#window;
    const warned = this.#warned();
    return {
      cost: this.settled,
      ...(start !== undefined && { window: start }),
      ...(warned !== undefined && { warned }),
    };
  }

  /** The highest share that was reached. */
  #warned(): number | undefined {
    const { costBudget } = this.limit;
    if (costBudget === undefined || this.settled === 0) return undefined;
    return WARN_SHARES.find((share) => this.settled * 100 >= costBudget * share);
  }

  /** Whether a new gate would be in the same state, so that this one can be dropped. */
  get isIdle(): boolean {
    return this.open === 0 && this.settled === 0 && this.groups === 0;
  }
}
