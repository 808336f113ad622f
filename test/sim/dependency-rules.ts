/** What the raw log says of jobs that wait for others, and of batches. */
import type { AskRecord, Change, JobRecord } from '../../src/model/records.ts';
import { isTerminal } from '../../src/model/states.ts';
import { check } from './check.ts';

/** Follows the log: no job is claimed before the jobs that it waits for have ended as it demands. */
export class DependencyRules {
  readonly #asks = new Map<string, AskRecord>();
  readonly #jobs = new Map<string, JobRecord>();
  readonly #batches = new Map<string, Readonly<Record<string, number>>>();

  take({ kind, id, after }: Change): void {
    if (kind === 'batch' && after) this.#batches.set(after.id, after.ended);
    if (kind === 'ask' && after) this.#asks.set(id, after);
    if (kind !== 'job' || !after) return;
    this.#jobs.set(id, after);
    const ask = this.#asks.get(id);
    if (after.state === 'claimed' && after.attempt === 1 && ask) this.#checkClaim(ask);
    if (after.reason === 'dependency' && ask) {
      const bad = (ask.spec.after ?? []).filter((each) => isBad(this.#jobs.get(each)));
      check(bad.length > 0, `${id} is dead by a dependency that ended otherwise`);
    }
  }

  /** Called at the end of the log. */
  checkBatches(): void {
    const counts = new Map<string, Record<string, number>>();
    for (const [id, { spec }] of this.#asks) {
      const state = this.#jobs.get(id)?.state ?? 'queued';
      if (spec.batch === undefined || !isTerminal(state)) continue;
      const known = counts.get(spec.batch) ?? { succeeded: 0, dead: 0, cancelled: 0 };
      known[state] = (known[state] ?? 0) + 1;
      counts.set(spec.batch, known);
    }
    for (const [batch, ended] of counts) {
      const recorded = JSON.stringify(this.#batches.get(batch));
      check(
        recorded === JSON.stringify(ended),
        `batch ${batch} counts ${recorded}, and not ${JSON.stringify(ended)}`,
      );
    }
  }

  #checkClaim({ id, spec }: AskRecord): void {
    for (const each of spec.after ?? []) {
      const job = this.#jobs.get(each);
      const isMet =
        job && (spec.after_policy === 'ended' ? isTerminal(job.state) : job.state === 'succeeded');
      check(isMet === true, `${id} was claimed while ${each}, which it waits for, is ${job?.state}`);
    }
  }
}

const isBad = (job: JobRecord | undefined): boolean => job?.state === 'dead' || job?.state === 'cancelled';
