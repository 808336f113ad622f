/**
 * Runs agents as jobs of type RUN_TYPE. Each attempt only decides: it reads how the jobs below have ended, advances the
 * run, and ends, with the result or by waiting for the next jobs. A lost attempt is repeated from the same state.
 */
import type { FunctionContext } from '../backends/local/functions.ts';
import { checker } from '../kit/check.ts';
import type { Logger } from '../kit/logger.ts';
import { describeThrown } from '../kit/redact.ts';
import { type AgentDefinition, RunRequest } from '../model/agent.ts';
import { OrchdError } from '../model/errors.ts';
import type { JobView } from '../model/http/jobs.ts';
import { keptRun, MESSAGES, runIn } from './kept-run.ts';
import { type Advanced, advance, type RunOf, type RunResult, resultOf } from './run.ts';
import { type ChatMessage, type EndedCall, fail, newRun, type RunState } from './run-state.ts';

const checkRequest = checker(RunRequest);

export interface RunnerParts {
  /** Throws NOT_FOUND for a name that no agent has. */
  readonly agent: (name: string) => AgentDefinition;
  /** The tools of an agent, and the check of its answers. */
  readonly partsOf: (agent: AgentDefinition) => Pick<RunOf, 'tools' | 'checkOutput'>;
  /** Throws NOT_FOUND for a job that is no longer kept. */
  readonly job: (id: string, tenant: string) => Promise<JobView>;
  /** The messages of a session; none for one that has none. */
  readonly conversation: (session: string, tenant: string) => Promise<readonly ChatMessage[]>;
  readonly logger: Logger | undefined;
  /** A step has thrown, which is a defect. */
  readonly onDefect?: () => void;
}

export class AgentRunner {
  readonly #parts: RunnerParts;

  constructor(parts: RunnerParts) {
    this.#parts = parts;
  }

  /** The function of jobs of type RUN_TYPE. */
  readonly run = async (payload: unknown, context: FunctionContext): Promise<unknown> => {
    const { waited, jobId, priority } = context;
    const from = waited ? runIn(waited.state) : await this.#begin(payload, context);
    const ended = waited && waited.woken !== 'time' ? await this.#ended(context) : undefined;
    const advanced = this.#advance({ runId: jobId, priority }, from, ended);
    if ('result' in advanced) return answered(advanced, context);
    const { run, jobs, pauseMs } = advanced;
    return context.wait({ ...keptRun(run), jobs, ...(pauseMs !== undefined && { forMs: pauseMs }) });
  };

  /** Throws INVALID_PARAMS or NOT_FOUND for a request that cannot be run. */
  async #begin(payload: unknown, { tenant, sessionId }: FunctionContext): Promise<RunState> {
    const request = checkRequest(payload);
    const agent = this.#parts.agent(request.agent);
    const conversation = sessionId === undefined ? [] : await this.#parts.conversation(sessionId, tenant);
    return newRun(agent, messagesIn(request), conversation);
  }

  #advance(
    of: Pick<RunOf, 'runId' | 'priority'>,
    from: RunState,
    ended: readonly EndedCall[] | undefined,
  ): EndedRun | Extract<Advanced, { is: 'waits' }> {
    const { runId } = of;
    try {
      const advanced = advance({ ...of, ...this.#parts.partsOf(from.agent) }, from, ended);
      return advanced.is === 'waits'
        ? advanced
        : { run: advanced.run, result: resultOf(runId, advanced.run) };
    } catch (error) {
      // Whoever asked gets an answer, and the fault is told to those who run this.
      const reason = describeThrown(error);
      this.#parts.logger?.error('a step of a run has failed', { job_id: runId, reason });
      this.#parts.onDefect?.();
      const { run } = fail(from, 'INTERNAL', 'a step of the run has failed');
      return { run, result: resultOf(runId, run) };
    }
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

interface EndedRun {
  readonly run: RunState;
  readonly result: RunResult;
}

/** The messages of a run that has answered belong to the conversation; one that has failed leaves it as it was. */
function answered({ run, result }: EndedRun, context: FunctionContext): unknown {
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

function endedCall(job: JobView): EndedCall {
  const { job_id: jobId, state, result, error, started_at: startedAt, ended_at: endedAt } = job;
  const durationMs = startedAt === undefined || endedAt === undefined ? 0 : Math.max(0, endedAt - startedAt);
  if (state === 'succeeded') return { jobId, result, durationMs };
  const what = error ?? { code: 'CANCELLED', message: `it was ${state}` };
  return { jobId, result: undefined, error: what as NonNullable<EndedCall['error']>, durationMs };
}
