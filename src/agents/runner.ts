/**
 * Runs agents as jobs of type RUN_TYPE. Each attempt only decides: it reads how the jobs below have ended, advances the
 * run, and ends, with the result or by waiting for the next jobs. A lost attempt is repeated from the same state.
 */
import type { FunctionContext } from '../backends/local/functions.ts';
import { checker } from '../kit/check.ts';
import type { Clock } from '../kit/env/env.ts';
import type { Logger } from '../kit/logger.ts';
import { describeThrown } from '../kit/redact.ts';
import { type AgentDefinition, DEFAULT_MAX_STEPS, type RunBudget, RunRequest } from '../model/agent.ts';
import { OrchdError } from '../model/errors.ts';
import type { JobCost, JobView } from '../model/http/jobs.ts';
import { runLabelText } from '../model/run-jobs.ts';
import { leftOf, smallerBudget } from './budget.ts';
import { keptRun, MESSAGES, runIn } from './kept-run.ts';
import { newMessages } from './new-messages.ts';
import { type Advanced, advance, type RunOf, type RunResult, resultOf } from './run.ts';
import {
  type BudgetLeft,
  type ChatMessage,
  type EndedCall,
  fail,
  newRun,
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
  readonly clock: Pick<Clock, 'now'>;
  readonly logger: Logger | undefined;
}

export class AgentRunner {
  readonly #parts: RunnerParts;

  constructor(parts: RunnerParts) {
    this.#parts = parts;
  }

  /**
   * The function of jobs of type RUN_TYPE. Whoever asked gets an answer also where a step throws, which is a defect. What
   * the caller or the server has brought about is no defect: an OrchdError outside of the steps ends the attempt.
   */
  readonly run = async (payload: unknown, context: FunctionContext): Promise<unknown> => {
    const { waited } = context;
    const begun = waited ? runIn(waited.state) : await this.#begin(payload, context);
    const ended = waited && waited.woken !== 'time' ? await this.#ended(context) : undefined;
    const from = withCosts(begun, ended);
    await this.#parts.ready?.(from.agent);
    const left = from.budget && (await this.#left(from.budget, context));
    let advanced: Advanced;
    try {
      advanced = this.#advance(context, from, ended, left);
    } catch (error) {
      return this.#defect(context, from, error);
    }
    const { run, phases } = advanced;
    context.label(runLabelText({ agent: run.agent.name, phases, isDefect: false }));
    if (advanced.is === 'ended') return answered(run, context);
    const { jobs, pauseMs } = advanced;
    const { tokens, cost } = run.budget ?? {};
    return context.wait({
      ...keptRun(run),
      jobs,
      newIds: true,
      ...(pauseMs !== undefined && { forMs: pauseMs }),
      ...((tokens !== undefined || cost !== undefined) && { budget: { tokens, cost } }),
    });
  };

  async #left(budget: RunBudget, { jobId, tenant }: FunctionContext): Promise<BudgetLeft> {
    const { job, clock } = this.#parts;
    return leftOf(budget, await job(jobId, tenant), clock.now());
  }

  /** Throws INVALID_PARAMS or NOT_FOUND for a request that cannot be run. */
  async #begin(payload: unknown, { tenant, sessionId }: FunctionContext): Promise<RunState> {
    const request = checkRequest(payload);
    const agent = this.#parts.agent(request.agent);
    const conversation = sessionId === undefined ? [] : await this.#parts.conversation(sessionId, tenant);
    const { max_steps: most, budget } = request;
    const steps = Math.min(agent.max_steps ?? DEFAULT_MAX_STEPS, most ?? Number.POSITIVE_INFINITY);
    const own = most === undefined ? agent : { ...agent, max_steps: steps };
    const given = messagesIn(request);
    const asked = request.repeats_history ? newMessages(conversation, given) : given;
    return newRun(own, asked, conversation, smallerBudget(agent.budget, budget));
  }

  #advance(
    { jobId: runId, priority }: FunctionContext,
    from: RunState,
    ended: readonly EndedCall[] | undefined,
    left: BudgetLeft | undefined,
  ): Advanced {
    return advance({ runId, priority, left, ...this.#parts.partsOf(from.agent) }, from, ended);
  }

  /** The run fails. What was thrown is logged here; the label of the attempt makes telemetry count it and raise an alert. */
  #defect(context: FunctionContext, from: RunState, thrown: unknown): RunResult {
    const { jobId, traceId } = context;
    const reason = describeThrown(thrown);
    this.#parts.logger?.error('a step of a run has failed', { job_id: jobId, trace_id: traceId, reason });
    const { run } = fail(from, 'INTERNAL', 'a step of the run has failed');
    context.label(runLabelText({ agent: from.agent.name, phases: [from.phase, run.phase], isDefect: true }));
    return resultOf(traceId, run);
  }

  async #ended({ waited, tenant }: FunctionContext): Promise<EndedCall[]> {
    const refused = (waited?.refused ?? []).map(({ id, error }) => ({
      jobId: id,
      result: undefined,
      error,
      isRefused: true,
      durationMs: 0,
    }));
    const jobs = await Promise.all((waited?.jobs ?? []).map((id) => this.#endOf(id, tenant)));
    return [...jobs.filter((job) => job !== undefined), ...refused];
  }

  /** Undefined for a job that is no longer kept: it has ended so long ago that it was purged. */
  async #endOf(id: string, tenant: string): Promise<EndedCall | undefined> {
    try {
      return endedCall(await this.#parts.job(id, tenant));
    } catch (error) {
      if (error instanceof OrchdError && error.code === 'NOT_FOUND') return undefined;
      throw error;
    }
  }
}

/** The messages of a run that has answered belong to the conversation; one that has failed leaves it as it was. */
function answered(run: RunState, context: FunctionContext): unknown {
  const result = resultOf(context.traceId, run);
  if (context.sessionId === undefined || result.error) return result;
  return context.end(result, { name: MESSAGES, values: run.messages, from: run.heard });
}

export function messagesIn({ input, messages = [] }: RunRequest): readonly ChatMessage[] {
  if (input !== undefined && messages.length > 0)
    throw new OrchdError('INVALID_PARAMS', '"input" and "messages" cannot be given together', {
      field: 'input',
    });
  if (input !== undefined) return [{ role: 'user', content: input }];
  if (messages.length > 0) return messages;
  throw new OrchdError('INVALID_PARAMS', 'a run needs an "input" or "messages"', { field: 'input' });
}

/** Adds what the calls have cost. A lost attempt is repeated from the state before, so each is counted once. */
function withCosts(run: RunState, ended: readonly EndedCall[] = []): RunState {
  const costs = [run.cost, ...ended.map(({ cost }) => cost)].filter((cost) => cost !== undefined);
  if (costs.length === 0) return run;
  const sum = (of: keyof JobCost): number => costs.reduce((total, cost) => total + cost[of], 0);
  return { ...run, cost: { amount: sum('amount'), assumed: sum('assumed'), reserved: sum('reserved') } };
}

function endedCall(job: JobView): EndedCall {
  const { job_id: jobId, state, result, error, started_at: startedAt, ended_at: endedAt, cost } = job;
  const durationMs = startedAt === undefined || endedAt === undefined ? 0 : Math.max(0, endedAt - startedAt);
  const ended = { jobId, result: undefined, durationMs, ...(cost && { cost }) };
  if (state === 'succeeded') return { ...ended, result };
  const what = error ?? { code: 'CANCELLED', message: `it was ${state}` };
  return { ...ended, error: what as NonNullable<EndedCall['error']> };
}
