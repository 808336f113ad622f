/**
 * Other agents work on the question at once, each in a run of its own below this one. What each of them says is told to
 * the model, which merges it in the synthesis. A branch that fails does not end the run, unless none has answered.
 */
import type { GivenMessage } from '../../model/agent.ts';
import type { Next, Step, StepContext, StepNote } from '../run-state.ts';
import { type AskedTool, type ChatMessage, type ChildJob, type EndedCall, fail, goTo } from '../run-state.ts';
import { runJob, runsLeft } from '../sub-runs.ts';
import { isShortOfBudget } from './model-call.ts';
import { isRefusedForNow, pauseAfter } from './refusals.ts';
import { approvalIn, approvalJob, deniedText, textOf } from './tool-execution.ts';
import { markedData } from './tool-messages.ts';

export const branches: Step = (context) => (context.ended ? takeAnswers(context) : begin(context));

function begin(context: StepContext): Next {
  const { run } = context;
  const isFirst = run.asked.length === 0;
  // Branches are of no use where only the answer is left.
  if (isFirst && isShortOfBudget(context)) return goTo(run, 'llm_call');
  const { branches: names = [] } = run.agent;
  const open = isFirst
    ? names.map((tool): AskedTool => ({ jobId: '', callId: tool, tool, hash: '' }))
    : run.asked;
  if (open.length > runsLeft(run))
    return fail(
      run,
      'NO_RUNS_LEFT',
      `the run may begin ${runsLeft(run)} more runs, and has ${open.length} branches`,
    );
  const asked = open.map((each, at) => ({ ...each, jobId: `${context.runId}.${run.step + 1}.${at}` }));
  return { run: { ...run, asked, step: run.step + 1 }, jobs: asked.map((each) => jobOf(context, each)) };
}

function jobOf(
  context: StepContext,
  { jobId, tool: agent, toApprove, isApproved = false }: AskedTool,
): ChildJob {
  if (toApprove && !isApproved) return approvalJob(context, jobId, { tool: agent, args: toApprove.args });
  const asked = { messages: saidTo(context.run.messages) };
  return runJob(context, jobId, { agent, asked, event: 'branch', isApproved });
}

/** The conversation without calls of tools, which the branch may not have. */
const saidTo = (messages: readonly ChatMessage[]): GivenMessage[] =>
  messages.flatMap((message): GivenMessage[] => {
    const { role, content, tool_calls: calls } = message;
    if (role === 'tool' || calls) return [];
    // The same object is stored once.
    return Object.keys(message).length === 2 ? [message as GivenMessage] : [{ role, content }];
  });

function takeAnswers(context: StepContext): Next {
  const { run, ended = [] } = context;
  const byJob = new Map(ended.map((call) => [call.jobId, call]));
  const pauseMs = pauseAfter(run.refusals);
  const messages = [...run.messages];
  const steps = [...run.steps];
  const refused: AskedTool[] = [];
  const toBegin: AskedTool[] = [];
  for (const each of run.asked) {
    const call = byJob.get(each.jobId);
    const isApproval = each.toApprove !== undefined && !each.isApproved;
    if (call && pauseMs !== undefined && isRefusedForNow(call)) refused.push(each);
    else if (call?.error?.code === 'APPROVAL_REQUIRED' && !each.toApprove)
      toBegin.push({ ...each, toApprove: { args: { branch: each.tool } } });
    else if (isApproval && approvalIn(call)?.approved) toBegin.push({ ...each, isApproved: true });
    else {
      const text = isApproval ? deniedText(call) : textOf(call, undefined);
      messages.push({ role: 'user', content: `${each.tool} says:\n${isApproval ? markedData(text) : text}` });
      steps.push(noteOf(each, call));
    }
  }
  const told = { ...run, messages, steps, asked: [...toBegin, ...refused] };
  if (toBegin.length > 0) return begin({ ...context, run: told, ended: undefined });
  if (refused.length > 0)
    return { run: { ...told, refusals: run.refusals + 1 }, jobs: [], pauseMs: pauseMs as number };
  const answered = { ...told, refusals: 0 };
  const said = steps.filter(({ event }) => event === 'branch');
  if (said.some(({ error }) => error === undefined)) return goTo(answered, 'synthesis', { isMerging: true });
  return fail(answered, said[0]?.error ?? 'INTERNAL', 'no branch has answered');
}

function noteOf({ jobId, tool }: AskedTool, call: EndedCall | undefined): StepNote {
  const { ok, code, approved } = (call?.result ?? {}) as { ok?: boolean; code?: string; approved?: boolean };
  const failure = approved === false ? 'DENIED' : ok === false ? (code ?? 'TOOL_FAILED') : undefined;
  const error = call ? (call.error?.code ?? failure) : 'NOT_FOUND';
  return {
    event: 'branch',
    job_id: jobId,
    tool,
    duration_ms: call?.durationMs ?? 0,
    ...(error !== undefined && { error }),
  };
}
