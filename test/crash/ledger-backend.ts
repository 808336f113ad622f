/**
 * An executor that stands for another machine: it keeps its own ledger outside the data folder, so tokens,
 * tombstones and results outlive the brain. What runs when the brain dies goes on as soon as somebody opens
 * the ledger again; it is not started a second time.
 */

import type {
  Backend,
  BackendInfo,
  ExecutionEvent,
  ExecutionOutcome,
  ExecutionStatus,
  FollowEnd,
  Inspection,
  KillHow,
  KillReply,
  Offer,
  OfferReply,
  UsedTokens,
} from '../../src/core/ports/backend.ts';
import type { Env } from '../../src/kit/env/env.ts';
import { errorInfo, OrchdError } from '../../src/model/errors.ts';
import { jobOfToken } from '../../src/model/records.ts';
import type { Commander } from '../../src/model/worker-wire.ts';
import type { AppendFile } from './append-file.ts';
import { type LedgerLine, openLedger, type Plan, readLedger, resultOf, type Work, workOf } from './ledger.ts';

export interface LedgerOptions {
  readonly folder: string;
  readonly slots?: number;
  /** Ends what would run until it is killed: nobody is left to kill it. */
  readonly finishHeld?: boolean;
  /** Hears of every line, for tests that care for the order of things. */
  readonly onLine?: (line: LedgerLine) => void;
}

interface Execution {
  readonly plan: Plan;
  outcome: ExecutionOutcome | undefined;
  readonly followers: ((outcome: ExecutionOutcome) => void)[];
}

const HELD_MS = 25;

type LineBody = LedgerLine extends infer L ? (L extends LedgerLine ? Omit<L, 'at'> : never) : never;

export class LedgerBackend implements Backend {
  readonly info: BackendInfo;
  readonly #env: Env;
  readonly #options: LedgerOptions;
  readonly #ledger: AppendFile;
  readonly #executions = new Map<string, Execution>();
  readonly #tombstones = new Set<string>();
  readonly #acked = new Set<string>();
  readonly #epochs = new Map<string, number>();
  #closed = false;

  constructor(env: Env, options: LedgerOptions) {
    this.#env = env;
    this.#options = options;
    const known = readLedger(options.folder);
    this.#ledger = openLedger(options.folder);
    for (const line of known) this.#replay(line);
    const opened = known.find(({ is }) => is === 'opened') as { registry: string } | undefined;
    const registry = opened?.registry ?? 'ledger-1';
    if (!opened) this.#add({ is: 'opened', registry });
    this.info = {
      name: 'ledger',
      kind: 'ledger',
      slots: options.slots ?? 1,
      types: undefined,
      models: undefined,
      labels: {},
      paid: true,
      keepsResults: true,
      registry,
    };
    for (const [token, execution] of this.#executions) if (!execution.outcome) this.#goOn(token, execution);
  }

  async offer(offer: Offer): Promise<OfferReply> {
    const { token, attempt } = offer;
    if (this.#isFenced(offer)) return { is: 'fenced' };
    if (this.#acked.has(token)) this.#violation(token, 'offered after its acknowledgement');
    if (this.#tombstones.has(token))
      return { is: 'refused', error: errorInfo('WORKER_NOT_FOUND', 'tombstoned') };
    if (this.#executions.has(token)) return { is: 'accepted' };
    const work = workOf(offer.payloadText);
    for (const id of offer.waited?.children ?? []) this.#checkEnded(token, id);
    if (attempt <= (work.busy ?? 0)) {
      this.#add({ is: 'busy', token });
      return { is: 'busy', retryAfterMs: 10 };
    }
    const execution = {
      plan:
        work.parts !== undefined && !offer.waited
          ? waitPlan(offer, work)
          : planOf(token, attempt, work, offer.payloadText),
      outcome: undefined,
      followers: [],
    };
    this.#executions.set(token, execution);
    this.#add({ is: 'start', token, plan: execution.plan });
    this.#goOn(token, execution);
    return { is: 'accepted' };
  }

  async inspect(tokens: readonly string[], who: Commander): Promise<Inspection> {
    if (this.#isFenced(who)) throw new OrchdError('FENCED');
    const known = new Map<string, ExecutionStatus>();
    for (const token of tokens) {
      if (this.#acked.has(token)) this.#violation(token, 'asked about after its acknowledgement');
      const execution = this.#executions.get(token);
      if (execution) known.set(token, statusOf(execution));
    }
    return { registry: this.info.registry, rememberedSince: 0, known };
  }

  async follow(token: string, from: number, on: (event: ExecutionEvent) => void): Promise<FollowEnd> {
    const execution = this.#executions.get(token);
    if (!execution) return { is: 'lost' };
    if (from < 1) on({ n: 1, type: 'started', data: { token } });
    const outcome =
      execution.outcome ??
      (await new Promise<ExecutionOutcome>((resolve) => execution.followers.push(resolve)));
    return { is: 'ended', outcome };
  }

  async kill(token: string, who: Commander, how: KillHow = 'end'): Promise<KillReply> {
    if (this.#isFenced(who)) return { is: 'fenced' };
    if (this.#acked.has(token)) this.#violation(token, 'killed after its acknowledgement');
    const execution = this.#executions.get(token);
    if (!execution) {
      if (!this.#tombstones.has(token)) this.#add({ is: 'tombstone', token });
      this.#tombstones.add(token);
      return { is: 'tombstoned', registry: this.info.registry, rememberedSince: 0 };
    }
    if (execution.outcome) return { is: 'ended', outcome: execution.outcome };
    if (how === 'bury') return { is: 'running' };
    // The order arrives at once, the end is seen a little later, as with any real process.
    this.#env.timers.after(2, () => this.#end(token, execution, { ok: 'cancelled' }));
    return { is: 'stopping' };
  }

  async ack(token: string, _who: Commander): Promise<void> {
    if (this.#acked.has(token)) return;
    const execution = this.#executions.get(token);
    if (execution && !execution.outcome) this.#violation(token, 'acknowledged before its end');
    this.#acked.add(token);
    this.#executions.delete(token);
    this.#add({ is: 'ack', token });
  }

  async stop(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#ledger.close();
  }

  #replay(line: LedgerLine): void {
    if (line.is === 'epoch') this.#epochs.set(line.owner, line.epoch);
    else if (line.is === 'start')
      this.#executions.set(line.token, { plan: line.plan, outcome: undefined, followers: [] });
    else if (line.is === 'tombstone') this.#tombstones.add(line.token);
    else if (line.is === 'ack') {
      this.#acked.add(line.token);
      this.#executions.delete(line.token);
    } else if (line.is === 'end') {
      const execution = this.#executions.get(line.token);
      if (execution) execution.outcome = line.outcome;
    }
  }

  #goOn(token: string, execution: Execution): void {
    const { plan } = execution;
    const end = (): void => this.#end(token, execution, plan.outcome);
    if (plan.hold) {
      if (this.#options.finishHeld) this.#env.timers.after(HELD_MS, end);
    } else if (plan.ms === 0) end();
    else this.#env.timers.after(plan.ms, end);
  }

  #end(token: string, execution: Execution, outcome: ExecutionOutcome): void {
    if (execution.outcome || this.#closed) return;
    execution.outcome = outcome;
    this.#add({ is: 'end', token, outcome });
    for (const tell of execution.followers.splice(0)) tell(outcome);
  }

  /** Remembers the highest epoch per owner; a lower one is refused. */
  #isFenced({ owner, epoch }: Commander): boolean {
    const highest = this.#epochs.get(owner) ?? 0;
    if (epoch > highest) {
      this.#epochs.set(owner, epoch);
      this.#add({ is: 'epoch', owner, epoch });
    }
    return epoch < highest;
  }

  /** A job that has waited for another one goes on after the end of that one. */
  #checkEnded(token: string, id: string): void {
    const isEnd = (each: string): boolean => jobOfToken(each) === id;
    const hasEnded =
      [...this.#acked].some(isEnd) ||
      [...this.#executions].some(([each, { outcome }]) => isEnd(each) && outcome);
    if (!hasEnded) this.#violation(token, `begun before "${id}" had ended`);
  }

  #violation(token: string, what: string): void {
    this.#add({ is: 'violation', token, what });
  }

  #add(body: LineBody): void {
    const line = { at: this.#env.clock.now(), ...body } as LedgerLine;
    this.#ledger.add(line);
    this.#options.onLine?.(line);
  }
}

function waitPlan({ ask }: Offer, { parts = 0, stateBytes = 10, waitMs }: Work): Plan {
  const children = Array.from({ length: parts }, (_, n) => ({
    job_id: `${ask.id}.${n}`,
    type: 'work',
    payload: { ms: n },
  }));
  const stateText = JSON.stringify({ text: 's'.repeat(stateBytes) });
  const forMs = waitMs === undefined ? {} : { forMs: waitMs };
  return { ms: 0, hold: false, outcome: { ok: 'waits', stateText, children, needs: 'all', ...forMs } };
}

function planOf(token: string, attempt: number, work: Work, payloadText: string): Plan {
  const fails = attempt <= (work.fails ?? 0);
  const error = { ...errorInfo('EXECUTION_FAILED', 'told to fail'), retriable: !work.final };
  const told = work.tokens === undefined ? {} : { usage: usageOf(work.tokens) };
  const outcome: ExecutionOutcome = fails
    ? { ok: false, error, ...told }
    : { ok: true, resultText: resultOf(token, payloadText, work.resultBytes ?? 10), ...told };
  return { ms: work.ms ?? 0, hold: work.hold ?? false, outcome };
}

const usageOf = (output: number): UsedTokens => ({
  input: 0,
  cacheRead: 0,
  cacheWrite: 0,
  output,
  reasoning: 0,
  decodeMs: 1,
});

const statusOf = ({ outcome }: Execution): ExecutionStatus =>
  outcome ? { is: 'ended', outcome } : { is: 'running' };
