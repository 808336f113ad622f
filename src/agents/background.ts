/**
 * Runs in the background: each has a session of its own, below the call that has started it. Its end is told to the run
 * that has started it, if that goes on, and to the session of that run.
 *
 * K1  A start that is repeated begins one run, and one report: their ids are made from that of the call.
 * K2  The run is below the one that has started it, so rights, budgets, pauses and cancels of that one reach it. It may
 *     end later: then the agents above it are those of its record, and its budget is that of its request.
 * K3  The report is told in the session like any other job of it, one after the other, and once.
 */
import type { FunctionContext } from '../backends/local/functions.ts';
import type { RunRequest } from '../model/agent.ts';
import { OrchdError } from '../model/errors.ts';
import type { JobView } from '../model/http/jobs.ts';
import { REPORT_TYPE, type Report, RUN_TYPE, type ToolPayload, type ToolResult } from '../model/run-jobs.ts';
import { isTerminal } from '../model/states.ts';
import type { SubmitRequest } from '../model/submit.ts';
import { saidBy } from './ended-call.ts';
import { MESSAGES } from './kept-run.ts';
import type { RunResult } from './run.ts';
import type { ChatMessage, RunReport } from './run-state.ts';
import { markedData } from './steps/tool-messages.ts';

export interface BackgroundParts {
  readonly job: (id: string, tenant: string) => Promise<JobView>;
  readonly conversation: (session: string, tenant: string) => Promise<readonly ChatMessage[]>;
  readonly hasSession: (session: string, tenant: string) => Promise<boolean>;
  readonly submit: (request: SubmitRequest, from: FunctionContext) => Promise<unknown>;
}

/** Starts the run of an agent that a call of a tool asks for. Throws what refuses it. */
export async function startInBackground(
  { submit }: BackgroundParts,
  agent: string,
  { starts, args }: ToolPayload,
  context: FunctionContext,
): Promise<ToolResult> {
  const { jobId, sessionId, priority } = context;
  const { input } = args as { readonly input: string };
  const run = `${jobId}.0`;
  const payload: RunRequest = { agent, input, max_runs: 0, ...starts };
  await submit(
    {
      job_id: run,
      type: RUN_TYPE,
      parent_id: jobId,
      session_id: run,
      priority,
      payload,
    },
    context,
  );
  if (sessionId !== undefined) await submit(reportRequest(run, sessionId), context);
  const text = `The agent "${agent}" works on it in the background, as run ${run}. Its answer is told later: go on without it.`;
  return { ok: true, text, run };
}

async function orNone(job: Promise<JobView>): Promise<JobView | undefined> {
  try {
    return await job;
  } catch (error) {
    if (error instanceof OrchdError && error.code === 'NOT_FOUND') return undefined;
    throw error;
  }
}

/** A job that tells a session how a run has ended, once it has. */
export const reportRequest = (run: string, session: string): SubmitRequest => ({
  job_id: `${run}.report`,
  type: REPORT_TYPE,
  after: [run],
  after_policy: 'ended',
  payload: { run, session } satisfies Report,
});

/**
 * The function of jobs of type REPORT_TYPE: the first is in no session, so that the jobs of the session do not wait for the
 * run, and submits the second one into it.
 */
export async function report(
  { job, conversation, hasSession, submit }: BackgroundParts,
  { run, session }: Report,
  context: FunctionContext,
): Promise<unknown> {
  const { tenant, jobId, sessionId } = context;
  if (sessionId === undefined) {
    // The session was deleted: nothing more is said in it.
    if (!(await hasSession(session, tenant))) return { told: false };
    await submit(
      {
        job_id: `${jobId}.told`,
        type: REPORT_TYPE,
        session_id: session,
        payload: { run, session } satisfies Report,
      },
      context,
    );
    return { told: true };
  }
  const message = await endOf(job, run, tenant);
  const said = await conversation(sessionId, tenant);
  // The run that has started it may have heard of its end before.
  const isKnown =
    !message || said.some(({ role, content }) => role === message.role && content === message.content);
  if (isKnown) return { told: false };
  return context.end({ told: true }, { name: MESSAGES, values: [...said, message], from: said.length });
}

/** What is told of the end of a run; undefined while it goes on, and where it is no longer kept. */
export async function endOf(
  read: BackgroundParts['job'],
  run: string,
  tenant: string,
): Promise<RunReport['message'] | undefined> {
  const job = await orNone(read(run, tenant));
  return job && isTerminal(job.state) ? messageOf(run, job) : undefined;
}

function messageOf(run: string, { agent, state, result, error }: JobView): RunReport['message'] {
  const said = state === 'succeeded' ? saidBy(result as RunResult | undefined) : undefined;
  const who = `The agent "${agent}", which worked in the background as run ${run}`;
  if (said?.ok) return { role: 'user', content: `${who}, has answered:\n${markedData(said.text)}` };
  const why = said?.text ?? error?.message ?? `it was ${state}`;
  return { role: 'user', content: `${who}, has not answered:\n${markedData(why)}` };
}
