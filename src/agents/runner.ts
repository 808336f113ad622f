/**
 * Runs agents as jobs of type RUN_TYPE. Each attempt only decides: it reads how the jobs below have ended, advances the
 * run, and ends, with the result or by waiting for the next jobs. A lost attempt is repeated from the same state.
 */
import type { FunctionContext } from '../backends/local/functions.ts';
import { checker } from '../kit/check.ts';
import type { Clock } from '../kit/env/env.ts';
import type { Logger } from '../kit/logger.ts';
import { describeThrown } from '../kit/redact.ts';
import { type AgentDefinition, type RunBudget, RunRequest } from '../model/agent.ts';
import { OrchdError } from '../model/errors.ts';
import type { JobView } from '../model/http/jobs.ts';
import { runLabelText } from '../model/run-jobs.ts';
import { isTerminal } from '../model/states.ts';
import type { KnownLists } from '../runtime/body-values.ts';
import type { RecordedJob } from '../runtime/recorded-job.ts';
import { endOf } from './background.ts';
import { beginRun } from './begin-run.ts';
import { leftBelow, lessLeft } from './budget.ts';
import { endedCall, refusedCall, withCosts } from './ended-call.ts';
import { keptRun, MESSAGES, runIn } from './kept-run.ts';
import { beginFork } from './replay/begin-fork.ts';
import { type DecisionFacts, leftAfter, NotedTools, recordOf, withInput } from './replay/decision-input.ts';
import type { UsedBudget } from './replay/run-record.ts';
import { type Advanced, advance, type KeptResult, type RunOf, resultOf } from './run.ts';
import {
  type BudgetLeft,
  type ChatMessage,
  type EndedCall,
  fail,
  newRun,
  type RunReport,
  type RunState,
} from './run-state.ts';

const checkRequest = checker(RunRequest);

export interface RunnerParts {
  /** Throws NOT_FOUND for a name that no agent has. */
  readonly agent: (name: string) => AgentDefinition;
  /** The tools of an agent, and the check of its answers. */
  readonly partsOf: (agent: AgentDefinition) => Pick<RunOf, 'tools' | 'checkOutput'>;
  /** Resolves when the tools of an agent are known; they may come from servers that are being connected. */
  readonly ready?: (agent: AgentDefinition) => Promise<void> | undefined;
  /** Throws NOT_FOUND for a job that is no longer kept. */
  readonly job: (id: string, tenant: string) => Promise<JobView>;
  /** The messages of a session; none for one that has none. */
  readonly conversation: (session: string, tenant: string) => Promise<readonly ChatMessage[]>;
  /** A job with everything that is stored of it. Throws NOT_FOUND for one that is no longer kept. */
  readonly recorded: (id: string, tenant: string, known: KnownLists) => Promise<RecordedJob>;
  readonly clock: Pick<Clock, 'now'>;
  readonly logger: Logger | undefined;
}

export class AgentRunner {
  readonly #parts: RunnerParts;

  constructor(parts: RunnerParts) {
    this.#parts = parts;
  }

  /**
   * The function of jobs of type RUN_TYPE. Whoever asked gets an answer also where something throws that nobody foresaw,
   * which is a defect. What the caller or the server has brought about is none: an OrchdError outside of the steps ends
   * the attempt, and so does a read that fails, which another attempt may repeat.
   */
  readonly run = async (payload: unknown, context: FunctionContext): Promise<unknown> => {
    try {
      return await this.#decide(payload, context);
    } catch (error) {
      if (error instanceof FailedRead) throw error.cause;
      if (error instanceof OrchdError) throw error;
      return this.#defect(context, unbegun(payload), error);
    }
  };

  async #decide(payload: unknown, context: FunctionContext): Promise<unknown> {
    const { waited } = context;
    const begun = waited ? runIn(waited.state) : await this.#begin(payload, context);
    const ended = waited && waited.woken !== 'time' ? await this.#ended(context) : undefined;
    const from = withCosts(begun, ended);
    await reading(this.#parts.ready?.(from.agent));
    const used = from.budget && (await this.#used(from.budget, context));
    const above = await this.#leftAbove(context);
    const reports = await this.#reports(from, context);
    const facts = { ended, awaited: waited?.jobs ?? [], used, above, reports };
    let advanced: Advanced;
    try {
      advanced = this.#advance(context, from, facts);
    } catch (error) {
      return this.#defect(context, from, error);
    }
    const { run, phases } = advanced;
    context.label(runLabelText({ agent: run.agent.name, phases, isDefect: false }));
    if (advanced.is === 'ended') return answered(run, context, isApart(payload));
    const { jobs, pauseMs } = advanced;
    const { tokens, cost } = run.budget ?? {};
    return context.wait({
      ...keptRun(run),
      jobs,
      newIds: true,
      ...(pauseMs !== undefined && { forMs: pauseMs }),
      ...((tokens !== undefined || cost !== undefined) && { budget: { tokens, cost } }),
    });
  }

  /** What the run has used of what its budget limits. */
  async #used(budget: RunBudget, { jobId, tenant }: FunctionContext): Promise<UsedBudget> {
    const { job, clock } = this.#parts;
    const { budget: spent, created_at: from } = await reading(job(jobId, tenant));
    return {
      ...(budget.tokens !== undefined && { tokens: spent?.tokens_used ?? 0 }),
      ...(budget.cost !== undefined && { cost: spent?.cost_used ?? 0 }),
      ...(budget.wall_ms !== undefined && { ms: Math.max(0, clock.now() - from) }),
    };
  }

  /** What the runs above leave this one of their budgets; undefined where none has any. */
  async #leftAbove({ ancestors, tenant }: FunctionContext): Promise<BudgetLeft | undefined> {
    if (ancestors.length === 0) return undefined;
    const jobs = await Promise.all(ancestors.map((id) => this.#jobOf(id, tenant)));
    // The budget of a run that has ended holds no more: what a run in the background may use is in its request.
    const live = jobs.filter((job) => job && !isTerminal(job.state));
    return leftBelow(live.flatMap((job) => job?.budget ?? []));
  }

  /** The runs in the background that have ended since the run was told of others. */
  async #reports({ background = [] }: RunState, { tenant }: FunctionContext): Promise<RunReport[]> {
    const ends = background.map(async (run) => {
      const message = await reading(endOf(this.#parts.job, run, tenant));
      return message ? [{ run, message }] : [];
    });
    return (await Promise.all(ends)).flat();
  }

  /** Throws INVALID_PARAMS or NOT_FOUND for a request that cannot be run. */
  async #begin(payload: unknown, { tenant, sessionId }: FunctionContext): Promise<RunState> {
    const request = checkRequest(payload);
    const { recorded } = this.#parts;
    const known: KnownLists = new Map();
    if (request.fork)
      return beginFork(
        { read: (id) => reading(recorded(id, tenant, known)), agent: this.#parts.agent },
        request,
        sessionId,
      );
    const agent = this.#parts.agent(request.agent);
    const hears = sessionId !== undefined && !request.apart;
    const conversation = hears ? await reading(this.#parts.conversation(sessionId, tenant)) : [];
    return beginRun(agent, request, conversation);
  }

  #advance({ jobId: runId, priority }: FunctionContext, from: RunState, facts: DecisionFacts): Advanced {
    const { tools, checkOutput } = this.#parts.partsOf(from.agent);
    const noted = new NotedTools(tools);
    const own = from.budget && facts.used && leftAfter(from.budget, facts.used);
    const left = lessLeft(own, facts.above);
    const of = { runId, priority, left, tools: noted.offer, checkOutput, reports: facts.reports };
    const advanced = advance(of, from, facts.ended);
    return { ...advanced, run: withInput(advanced.run, facts, noted) };
  }

  /** The run fails. What was thrown is logged here; the label of the attempt makes telemetry count it and raise an alert. */
  #defect(context: FunctionContext, from: RunState, thrown: unknown): KeptResult {
    const { jobId, traceId } = context;
    const reason = describeThrown(thrown);
    this.#parts.logger?.error('a step of a run has failed', { job_id: jobId, trace_id: traceId, reason });
    const { run } = fail(from, 'INTERNAL', 'a step of the run has failed');
    context.label(runLabelText({ agent: from.agent.name, phases: [from.phase, run.phase], isDefect: true }));
    return keptResult(traceId, run, true);
  }

  async #ended({ waited, tenant }: FunctionContext): Promise<EndedCall[]> {
    const refused = (waited?.refused ?? []).map(({ id, error }) => refusedCall(id, error));
    const jobs = await Promise.all((waited?.jobs ?? []).map((id) => this.#endOf(id, tenant)));
    return [...jobs.filter((job) => job !== undefined), ...refused];
  }

  async #endOf(id: string, tenant: string): Promise<EndedCall | undefined> {
    const job = await this.#jobOf(id, tenant);
    return job && endedCall(job);
  }

  /** Undefined for a job that is no longer kept: it has ended so long ago that it was purged. */
  async #jobOf(id: string, tenant: string): Promise<JobView | undefined> {
    try {
      return await reading(this.#parts.job(id, tenant));
    } catch (error) {
      if (error instanceof OrchdError && error.code === 'NOT_FOUND') return undefined;
      throw error;
    }
  }
}

/** A read that has failed: of a store that cannot be reached, for example. */
class FailedRead extends Error {}

/** Marks what a read throws as no defect of the run. */
async function reading<T>(read: T | Promise<T>): Promise<T> {
  try {
    return await read;
  } catch (cause) {
    if (cause instanceof OrchdError) throw cause;
    throw new FailedRead('a read has failed', { cause });
  }
}

/** The state of a run that failed before it had one. */
function unbegun(payload: unknown): RunState {
  const { agent } = Object(payload) as { readonly agent?: unknown };
  return newRun({ name: typeof agent === 'string' ? agent : 'unknown', model: '' }, []);
}

/** The result with what replay needs: the state of a job that has succeeded is not kept. */
function keptResult(traceId: string, run: RunState, hasDefect = false): KeptResult {
  const record = recordOf(run);
  return {
    ...resultOf(traceId, run),
    ...(record && { record: { ...record, ...(hasDefect && { hasDefect }) } }),
  };
}

/** Whether what the run says belongs to no conversation. */
function isApart(payload: unknown): boolean {
  const { fork, apart } = payload as RunRequest;
  return fork !== undefined || apart === true;
}

/**
 * The messages of a run that has answered belong to the conversation; one that has failed leaves it as it was, and so does a
 * fork: the conversation has the answer of its origin. A run below another one tells that one alone.
 */
function answered(run: RunState, context: FunctionContext, apart: boolean): unknown {
  const result = keptResult(context.traceId, run);
  if (context.sessionId === undefined || result.error || apart) return result;
  return context.end(result, { name: MESSAGES, values: run.messages, from: run.heard });
}
