/** Builds the view of a job from its records, the same for library, HTTP and command line. */

import { scopes } from '../core/limits/limit.ts';
import type { JobBundle } from '../core/ports/store.ts';
import { needSourceOf } from '../core/queue/lane.ts';
import { explain } from '../core/scheduling/explain.ts';
import { jobPosition, predictStartMs } from '../core/scheduling/predict.ts';
import type { JobEntry } from '../core/state/job-entry.ts';
import type { State } from '../core/state/state.ts';
import type { EngineView } from '../core/turn.ts';
import { startHints } from '../core/workers/forecast.ts';
import type { ErrorInfo } from '../model/errors.ts';
import type { AttemptView, JobBudget, JobCost, JobView, JobWait } from '../model/http/jobs.ts';
import type { Bill } from '../model/price.ts';
import type { AskRecord, AttemptRecord, JobRecord } from '../model/records.ts';
import type { RoutePlace } from '../model/route.ts';
import { RUN_TYPE, runLabelIn } from '../model/run-jobs.ts';
import { isTerminal } from '../model/states.ts';
import { completionTokens, promptTokens, sumOf, type TokenCounts } from '../model/usage.ts';
import type { TreeBudget, WaitRecord } from '../model/waiting.ts';

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** Optional fields are set one by one: deleting absent ones from an object would make it slow. */
export function viewOf({ state, queue }: EngineView, entry: JobEntry, now: number): JobView {
  const past = entry.past ?? [];
  const view = base(entry.ask, entry.job, entry.open ? [...past, entry.open] : past);
  if (isTerminal(entry.job.state)) return view;
  const position = jobPosition(entry);
  if (position !== undefined) view.queue_position = position;
  const predicted = predictStartMs(entry, position, now, startHints(state, needSourceOf(entry)));
  if (predicted !== undefined) view.predicted_start_ms = predicted;
  if (entry.job.wait?.budget) view.budget = budgetView(state, entry, entry.job.wait.budget);
  const waiting = explain(state, entry, queue.sticky.of(entry));
  if (waiting) view.waiting = waiting;
  return view;
}

export function viewOfBundle(bundle: JobBundle): JobView {
  return base(bundle.ask, bundle.job, bundle.attempts);
}

function base(ask: AskRecord, job: JobRecord, attempts: readonly AttemptRecord[]): Mutable<JobView> {
  const view: Mutable<JobView> = {
    job_id: ask.id,
    state: job.state,
    type: ask.spec.type,
    priority: ask.spec.priority,
    agent: ask.spec.agent,
    score: ask.spec.score,
    created_at: ask.createdAt,
    tries: job.tries,
    max_tries: ask.spec.max_tries,
    attempts: attempts.map(attemptView),
    payload_bytes: ask.payloadBytes,
  };
  const counts = attempts.map(({ usage }) => usage).filter((usage) => usage !== undefined);
  if (counts.length > 0) view.usage = usageView(counts.reduce(sumOf));
  const bills = attempts.map(({ bill }) => bill).filter((bill) => bill !== undefined);
  if (bills.length > 0) view.cost = costView(bills);
  if (ask.spec.key !== undefined) view.key = ask.spec.key;
  if (ask.spec.session_id !== undefined) view.session_id = ask.spec.session_id;
  if (ask.spec.batch !== undefined) view.batch = ask.spec.batch;
  if (ask.spec.tags !== undefined) view.tags = ask.spec.tags;
  if (ask.spec.after !== undefined) view.after = ask.spec.after;
  if (ask.spec.not_before !== undefined) view.not_before = ask.spec.not_before;
  if (ask.spec.model !== undefined) view.model = ask.spec.model;
  if (ask.modelRef !== undefined) view.model_ref = ask.modelRef;
  if (ask.route !== undefined && job.place) addRoute(view, ask.route, job.place);
  if (job.startedAt !== undefined) view.started_at = job.startedAt;
  if (job.endedAt !== undefined) view.ended_at = job.endedAt;
  if (job.state === 'waiting' && job.wait) view.wait = waitView(job.wait);
  if (job.state === 'succeeded' && ask.spec.type === RUN_TYPE) addRunState(view, attempts.at(-1));
  if (job.paused && !isTerminal(job.state)) view.paused = { ...job.paused };
  if (job.cancel) view.cancel_requested = true;
  if (job.reason) view.reason = job.reason;
  if (job.error) view.error = errorView(job.error);
  return view;
}

/** The label of the last attempt ends with the phase in which the run has ended. */
function addRunState(view: Mutable<JobView>, last: AttemptRecord | undefined): void {
  const phase = runLabelIn(last?.label)?.phases.at(-1);
  if (phase === 'completed' || phase === 'failed') view.run_state = phase;
}

/** The spent record of a tree is written with what was used: nothing else counts it. */
function budgetView({ tables }: State, { ask }: JobEntry, { tokens, cost }: TreeBudget): JobBudget {
  const spent = tables.spent.get(scopes.root(ask.tenant, ask.id));
  return {
    ...(tokens !== undefined && { tokens, tokens_used: spent?.tokens ?? 0 }),
    ...(cost !== undefined && { cost, cost_used: spent?.cost ?? 0 }),
  };
}

function waitView({ step, children, needs, until }: WaitRecord): JobWait {
  const view: Mutable<JobWait> = { step, jobs: [...children], needs };
  if (until !== undefined) view.until = until;
  return view;
}

function addRoute(view: Mutable<JobView>, name: string, { model, modelRef, left }: RoutePlace): void {
  view.model = model;
  if (modelRef !== undefined) view.model_ref = modelRef;
  else delete view.model_ref;
  view.route = { name, model, left: left.map((step) => ({ ...step })) };
}

function attemptView(attempt: AttemptRecord): AttemptView {
  const view: Mutable<AttemptView> = {
    attempt: attempt.n,
    backend: attempt.backend,
    state: attempt.state,
    intended_at: attempt.at,
  };
  if (attempt.model !== undefined) view.model = attempt.model;
  if (attempt.outcome) view.outcome = attempt.outcome;
  if (attempt.error) view.error = errorView(attempt.error);
  if (attempt.acceptedAt !== undefined) view.accepted_at = attempt.acceptedAt;
  if (attempt.endedAt !== undefined) view.ended_at = attempt.endedAt;
  if (attempt.usage) view.usage = usageView(attempt.usage);
  if (attempt.bill) view.cost = billView(attempt.bill);
  return view;
}

/** Without what is sealed: reads.ts opens it for those who ask for one job. */
function errorView({ sealed, ...error }: ErrorInfo): ErrorInfo {
  return error;
}

function billView({ reserved, isBound, cost, basis }: Bill): NonNullable<AttemptView['cost']> {
  const view: Mutable<NonNullable<AttemptView['cost']>> = { reserved, is_bound: isBound };
  if (cost !== undefined) view.amount = cost;
  if (basis !== undefined) view.basis = basis;
  return view;
}

function costView(bills: readonly Bill[]): JobCost {
  const sum = { amount: 0, assumed: 0, reserved: 0 };
  for (const { reserved, cost, basis } of bills) {
    if (cost === undefined) sum.reserved += reserved;
    else sum.amount += cost;
    if (basis === 'assumed') sum.assumed += cost ?? 0;
  }
  return sum;
}

const usageView = (counts: TokenCounts): NonNullable<AttemptView['usage']> => ({
  prompt_tokens: promptTokens(counts),
  completion_tokens: completionTokens(counts),
  ...(counts.cacheRead > 0 && { cache_read_tokens: counts.cacheRead }),
  ...(counts.cacheWrite > 0 && { cache_write_tokens: counts.cacheWrite }),
  ...(counts.reasoning > 0 && { reasoning_tokens: counts.reasoning }),
});
