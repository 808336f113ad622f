/**
 * The budget that a waiting job gives itself and all jobs below it (`wait.budget`). Tokens are reserved when a job below is
 * admitted, money when an attempt of it starts, by the same limiter and gates as all limits, in the scope `root:` of the
 * job: jobs that run side by side cannot overspend together.
 *
 * B1  Every job below the one with the budget counts, at any depth and whoever has submitted it.
 * B2  What was used is the spent record of the scope, written in the commit that uses it, until the job has ended.
 */
import type { LimitSpec, SpentRecord } from '../../model/limit-records.ts';
import type { AskRecord } from '../../model/records.ts';
import { isTerminal } from '../../model/states.ts';
import { scopes } from '../limits/limit.ts';
import type { JobEntry } from '../state/job-entry.ts';
import type { Turn } from '../turn.ts';

const scopeOf = ({ ask: { tenant, id } }: Pick<JobEntry, 'ask'>): string => scopes.root(tenant, id);

/** The budget of a job that waits holds from now on. */
export function limitTree(turn: Turn, entry: JobEntry): void {
  const { tokens, cost } = entry.job.wait?.budget ?? {};
  const { limiter, tables } = turn.state;
  const { gates } = turn.queue;
  const scope = scopeOf(entry);
  const stored = (name: string): SpentRecord | undefined => tables.spent.get(name);
  if (tokens !== undefined && !limiter.hasOwn(scope))
    limiter.limitOwn({ scope, tokenBudget: tokens }, turn.now);
  const budget: LimitSpec = { scope, costBudget: cost, hard: true };
  if (cost !== undefined && !gates.hasOwn(scope)) gates.limitOwn(budget, stored);
}

/** At the start of a brain, before the estimates of live jobs are reserved. */
export function openTrees(turn: Turn): void {
  for (const entry of turn.state.jobs.values())
    if (entry.job.wait?.budget && !isTerminal(entry.job.state)) limitTree(turn, entry);
}

/** The job has ended: nothing below it is started any more, and what it used is in the records of the attempts. */
export function dropTree(turn: Turn, entry: JobEntry): void {
  const { limiter } = turn.state;
  const { gates } = turn.queue;
  if (limiter.ownCount === 0 && gates.ownCount === 0) return;
  const scope = scopeOf(entry);
  limiter.dropOwn(scope);
  // Its spent record goes with this commit.
  if (gates.hasOwn(scope)) limiter.dirty.add(scope);
  gates.dropOwn(scope);
}

/** The scopes of the jobs above this one that limit the tokens of all below them. */
export function treeScopes({ state }: Turn, ask: Pick<AskRecord, 'tenant' | 'ancestors'>): string[] {
  if (state.limiter.ownCount === 0) return [];
  return (ask.ancestors ?? [])
    .map((id) => scopes.root(ask.tenant, id))
    .filter((scope) => state.limiter.hasOwn(scope));
}
