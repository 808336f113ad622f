/**
 * The calls of tools that the model asked for, each a job of its own, all at once. What cannot be called and what fails is
 * told to the model, and does not end the run.
 */
import { stableHash } from '../../kit/hash.ts';
import { DEFAULT_APPROVAL_WAIT_MS, DEFAULT_PARALLEL_TOOLS } from '../../model/agent.ts';
import {
  APPROVAL_TYPE,
  type Approval,
  type ApprovalTags,
  type CallToApprove,
  TOOL_TYPE,
} from '../../model/run-jobs.ts';
import type { ToolCall } from '../../model/worker-wire.ts';
import {
  type AskedTool,
  type ChatMessage,
  type ChildJob,
  type EndedCall,
  goTo,
  type Next,
  type Step,
  type StepContext,
  type StepNote,
} from '../run-state.ts';
import type { ToolResult } from '../tools/call.ts';
import { askedCalls } from './llm-call.ts';
import { cut } from './model-call.ts';

/** A call with the same arguments is made so often in a run; then the model is told to go on without it. */
const MAX_EQUAL_CALLS = 3;

export const toolExecution: Step = (context) => (context.ended ? takeResults(context) : callTools(context));

interface Sorted {
  readonly jobs: ChildJob[];
  readonly asked: AskedTool[];
  /** The messages that tell the model of calls that are not made. */
  readonly refusals: ChatMessage[];
  readonly made: string[];
}

function callTools(context: StepContext): Next {
  const { run } = context;
  const sorted: Sorted = { jobs: [], asked: [], refusals: [], made: [...run.made] };
  const seen = new Set<string>();
  for (const call of askedCalls(run)) {
    const refusal = seen.has(call.id)
      ? 'the id of this call was used before in the same answer'
      : sort(context, call, sorted);
    seen.add(call.id);
    if (refusal !== undefined) sorted.refusals.push(toolMessage(call.id, `error: ${refusal}`));
  }
  const { jobs, asked, refusals, made } = sorted;
  const messages = [...run.messages, ...refusals];
  if (jobs.length === 0) return goTo(run, 'llm_call', { messages, made });
  return { run: { ...run, messages, made, asked, step: run.step + 1 }, jobs };
}

/** Adds the job of the call; returns why there is none. */
function sort(context: StepContext, call: ToolCall, sorted: Sorted): string | undefined {
  const { tools } = context;
  const { agent } = context.run;
  const { name, arguments: text } = call.function;
  const most = agent.parallel_tools ?? DEFAULT_PARALLEL_TOOLS;
  if (sorted.jobs.length >= most) return `at most ${most} tools are called at once: ask for it again`;
  const checked = tools.check(name, text);
  if (!checked) return 'there is no tool of this name';
  if (!checked.ok) return checked.message;
  const hash = callHash(name, checked.args);
  if (timesMade(sorted.made, hash) >= MAX_EQUAL_CALLS)
    return `this call was made ${MAX_EQUAL_CALLS} times already: go on without it`;
  sorted.made.push(hash);
  const place = jobId(context, sorted.jobs.length);
  const needsApproval = tools.needsApproval(name);
  const make = needsApproval ? approvalJob : toolJob;
  sorted.jobs.push(make(context, place, name, checked.args));
  const asked = { jobId: place, callId: call.id, tool: name, hash };
  sorted.asked.push(needsApproval ? { ...asked, toApprove: { args: checked.args } } : asked);
  return undefined;
}

const timesMade = (made: readonly string[], hash: string): number =>
  made.filter((each) => each === hash).length;

const jobId = ({ runId, run }: StepContext, at: number): string => `${runId}.${run.step + 1}.${at}`;

function toolJob({ run, priority, tools }: StepContext, id: string, tool: string, args: unknown): ChildJob {
  const isEffectful = tools.effectOf(tool) === 'effectful';
  return {
    job_id: id,
    type: TOOL_TYPE,
    priority,
    tags: { agent: run.agent.name, event: 'tool_call', tool },
    timeout_ms: tools.timeoutOf(tool),
    // A call that may have been made is not made again where that would do it twice: a person decides.
    on_unknown: isEffectful ? 'hold' : 'retry',
    max_tries: isEffectful ? 1 : 3,
    payload: { agent: run.agent.name, tool, args },
  };
}

function approvalJob(
  { run, runId, priority }: StepContext,
  id: string,
  tool: string,
  args: unknown,
): ChildJob {
  const { name: agent, approval_wait_ms: waitMs = DEFAULT_APPROVAL_WAIT_MS } = run.agent;
  const payload: CallToApprove = { agent, tool, args, waitMs };
  const tags: ApprovalTags = { run: runId, agent, event: 'approval', tool, hash: callHash(tool, args) };
  return { job_id: id, type: APPROVAL_TYPE, priority, tags, payload };
}

const callHash = (tool: string, args: unknown): string => stableHash([tool, args]);

/** Tells the model what came of its calls. Those that were only allowed by now are made. */
function takeResults(context: StepContext): Next {
  const { run, ended = [] } = context;
  const byJob = new Map(ended.map((call) => [call.jobId, call]));
  const messages = [...run.messages];
  const steps = [...run.steps];
  const made = [...run.made];
  const asked: AskedTool[] = [];
  const jobs: ChildJob[] = [];
  for (const each of run.asked) {
    const call = byJob.get(each.jobId);
    const { toApprove, ...rest } = each;
    if (toApprove && approvalIn(call)?.approved) {
      const id = jobId(context, jobs.length);
      jobs.push(toolJob(context, id, each.tool, toApprove.args));
      asked.push({ ...rest, jobId: id });
      continue;
    }
    const isInDoubt = mayBeDone(context, each.tool, call);
    // No such call is made again.
    if (isInDoubt) while (timesMade(made, each.hash) < MAX_EQUAL_CALLS) made.push(each.hash);
    const text = toApprove ? deniedText(call) : textOf(call);
    messages.push(toolMessage(each.callId, isInDoubt ? text + MAY_BE_DONE : text));
    steps.push(stepNote(each, call));
  }
  if (jobs.length === 0) return goTo(run, 'llm_call', { messages, steps, made, asked: [] });
  return { run: { ...run, messages, steps, made, asked, step: run.step + 1 }, jobs };
}

const approvalIn = (call: EndedCall | undefined): Approval | undefined =>
  call?.error ? undefined : (call?.result as Approval | undefined);

function deniedText(call: EndedCall | undefined): string {
  const why = approvalIn(call)?.why;
  return `error: the call was denied${why === undefined ? '' : `: ${cut(why)}`}`;
}

/** The text for the model about a call that has ended. A person may have settled the call, with any result. */
function textOf(call: EndedCall | undefined): string {
  if (!call) return 'error: the result of this call is no longer kept';
  if (call.error) return `error: ${call.error.message}`;
  const { result } = call;
  if (result === null || result === undefined) return 'done';
  if (typeof result === 'string') return cut(result);
  const { ok = true, text } = result as { ok?: unknown; text?: unknown };
  const said = cut(typeof text === 'string' ? text : JSON.stringify(result));
  return ok === false ? `error: ${said}` : said;
}

/** True for a call with an effect that was given up while it ran: it may have been done all the same. */
function mayBeDone({ tools }: StepContext, tool: string, call: EndedCall | undefined): boolean {
  if (tools.effectOf(tool) !== 'effectful') return false;
  const { why, started } = (call?.result ?? {}) as Partial<Extract<ToolResult, { ok: false }>>;
  return why !== undefined && why !== 'failed' && started === true;
}

const MAY_BE_DONE = '. It may have been done all the same: do not call it again';

function stepNote({ jobId, tool }: AskedTool, call: EndedCall | undefined): StepNote {
  const { ok, approved } = (call?.result ?? {}) as Partial<ToolResult & Approval>;
  const failure = approved === false ? 'DENIED' : ok === false ? 'TOOL_FAILED' : undefined;
  const error = call?.error?.code ?? failure;
  return {
    event: 'tool_call',
    job_id: jobId,
    tool,
    duration_ms: call?.durationMs ?? 0,
    ...(error !== undefined && { error }),
  };
}

const toolMessage = (callId: string, content: string): ChatMessage => ({
  role: 'tool',
  tool_call_id: callId,
  content,
});
