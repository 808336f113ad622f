/** Commands for all jobs that match a filter: cancel and redrive. Each can be previewed. */
import type { HistoryQuery } from '../core/ports/store.ts';
import { OrchdError } from '../model/errors.ts';
import type { BulkCommand, BulkOutcome } from '../model/http/batches.ts';
import { isTerminal, JOB_STATES } from '../model/states.ts';
import { type JobOrders, refusalOf } from './job-orders.ts';
import { behind, type FoundJob, filterOf } from './listing.ts';
import type { Reads } from './reads.ts';

/** Some stores read in the thread of the event loop. */
const PAGE_JOBS = 100;
const SAMPLE_JOBS = 10;

const LIVE_STATES = JOB_STATES.filter((state) => !isTerminal(state));

export interface BulkOrdersParts {
  readonly reads: Reads;
  readonly orders: JobOrders;
  /** The sequence number of the last change: jobs that are admitted later are not meant. */
  readonly seq: () => number;
}

type Order = (jobs: readonly FoundJob[]) => Promise<readonly (OrchdError | undefined)[]>;

export class BulkOrders {
  readonly #parts: BulkOrdersParts;

  constructor(parts: BulkOrdersParts) {
    this.#parts = parts;
  }

  /** The newest jobs go first: no job may start because the one before it was cancelled. */
  cancel(command: BulkCommand, by: string, tenant: string): Promise<BulkOutcome> {
    const { orders } = this.#parts;
    return this.#run(command, tenant, LIVE_STATES, {}, (jobs) =>
      Promise.all(jobs.map(({ ask }) => refusalOf(orders.cancel(ask.id, by, tenant)))),
    );
  }

  /** The oldest jobs go first: a job that waits for another one can be redriven only after that one. */
  redrive(command: BulkCommand, by: string, tenant: string): Promise<BulkOutcome> {
    const { orders } = this.#parts;
    return this.#run(command, tenant, ['dead'], { order: 'oldest first' }, (jobs) =>
      orders.redriveAll(
        jobs.map(({ ask }) => ask.id),
        by,
        tenant,
      ),
    );
  }

  async #run(
    command: BulkCommand,
    tenant: string,
    states: readonly string[],
    order: Pick<HistoryQuery, 'order'>,
    run: Order,
  ): Promise<BulkOutcome> {
    const { dry_run: isDry = false, ...filter } = command;
    if (Object.keys(filter).length === 0)
      throw new OrchdError(
        'INVALID_PARAMS',
        'name at least one filter: batch, tag, state, type, agent, session_id, key or root',
      );
    const outcome = {
      matched: 0,
      changed: 0,
      refused: 0,
      job_ids: [] as string[],
      refusal: undefined as string | undefined,
    };
    for await (const page of this.#pages(
      { ...filterOf(filter, tenant), ...order, limit: PAGE_JOBS },
      states,
    )) {
      outcome.matched += page.length;
      for (const { ask } of page.slice(0, SAMPLE_JOBS - outcome.job_ids.length)) outcome.job_ids.push(ask.id);
      if (isDry) continue;
      for (const error of await run(page)) {
        if (!error) outcome.changed++;
        else outcome.refused++;
        outcome.refusal ??= error?.message;
      }
    }
    const { refusal, ...rest } = outcome;
    return refusal === undefined ? rest : { ...rest, refusal };
  }

  async *#pages(given: HistoryQuery, states: readonly string[]): AsyncGenerator<readonly FoundJob[]> {
    const wanted = given.states?.filter((state) => states.includes(state)) ?? states;
    if (wanted.length === 0) return;
    const { reads, seq } = this.#parts;
    let query: HistoryQuery = { ...given, states: wanted, before: seq() + 1 };
    for (;;) {
      const found = await reads.find(query);
      yield found;
      const last = found.at(-1);
      if (!last || found.length < query.limit) return;
      query = behind(query, last.ask.n);
    }
  }
}
