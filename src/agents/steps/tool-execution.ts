/**
 * The calls of tools that the model asked for, each a job of its own, all at once. What cannot be called and what fails is
 * told to the model, and does not end the run.
 */
import { cutText } from '../../kit/cut-text.ts';
import { stableHash } from '../../kit/hash.ts';
import { DEFAULT_APPROVAL_WAIT_MS, DEFAULT_PARALLEL_TOOLS } from '../../model/agent.ts';
import {
  APPROVAL_TYPE,
  type Approval,
  type ApprovalTags,
  type CallToApprove,
  type StartedBelow,
  TOOL_TYPE,
  type ToolPayload,
  type ToolResult,
} from '../../model/run-jobs.ts';
import type { ToolCall } from '../../model/worker-wire.ts';
import { smallerBudget } from '../budget.ts';
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
import { beginsRun, runJob, runsLeft } from '../sub-runs.ts';
import { type CallFault, type CallFaultCode, faultNotes, refusedCall } from './call-faults.ts';
import { askedCalls } from './llm-call.ts';
import { cut } from './model-call.ts';
import { isRefusedForNow, pauseAfter } from './refusals.ts';
import { markedData, toolMessage } from './tool-messages.ts';

/** A call with the same arguments is made so often in a run; then the model is told to go on without it. */
const MAX_EQUAL_CALLS = 3;

export const toolExecution: Step = (context) => {
  if (context.ended) return takeResults(context);
  return context.run.asked.length > 0 ? makeCalls(context) : callTools(context);
};

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
  const faults: { readonly tool: string; readonly code: CallFaultCode }[] = [];
  const calls = askedCalls(run).map((asked) => {
    // Servers of models refuse a conversation in which two calls have the same id.
    const call = { ...asked, id: unusedId(asked.id, seen) };
    const refusal = call.id === asked.id ? sort(context, call, sorted) : DUPLICATE_ID;
    seen.add(call.id);
    if (!refusal) return call;
    sorted.refusals.push(toolMessage(call.id, `error: ${refusal.message}`));
    faults.push({ tool: call.function.name, code: refusal.code });
    return refusedCall(call);
  });
  const { jobs, asked, refusals, made } = sorted;
  const answer = { ...(run.messages.at(-1) as ChatMessage), tool_calls: calls };
  const messages = [...run.messages.slice(0, -1), answer, ...refusals];
  const steps = [...run.steps, ...faultNotes(faults)];
  if (jobs.length === 0) return goTo(run, 'llm_call', { messages, made, steps });
  return { run: { ...run, messages, made, steps, asked, step: run.step + 1 }, jobs };
}

function unusedId(id: string, used: ReadonlySet<string>): string {
  let unused = id;
  for (let n = 2; used.has(unused); n++) unused = `${id}-${n}`;
  return unused;
}

const fault = (code: CallFaultCode, message: string): CallFault => ({ code, message });

const DUPLICATE_ID = fault('DUPLICATE_CALL_ID', 'the id of this call was used before in the same answer');

const isOutOfTime = (left: StepContext['left']): boolean => (left?.untilWrapUpMs ?? 1) <= 0;

const OUT_OF_TIME = fault('NO_STEPS_LEFT', 'the time of this task is used up');

const NO_RUNS_LEFT = fault('NO_RUNS_LEFT', 'no more agents may be called for this task: go on without them');

/** A tool that the agent does not have. */
const missing = (wasThere: boolean): CallFault =>
  wasThere
    ? fault('TOOL_GONE', 'the agent may no longer use this tool')
    : fault('UNKNOWN_TOOL', 'there is no tool of this name');

/** Adds the job of the call; returns why there is none. */
function sort(context: StepContext, call: ToolCall, sorted: Sorted): CallFault | undefined {
  const { tools, left } = context;
  const { agent } = context.run;
  if (isOutOfTime(left)) return OUT_OF_TIME;
  const { name, arguments: text } = call.function;
  const most = agent.parallel_tools ?? DEFAULT_PARALLEL_TOOLS;
  if (sorted.jobs.length >= most)
    return fault('TOO_MANY_CALLS', `at most ${most} tools are called at once: ask for it again`);
  const checked = tools.check(name, text);
  const off = tools.faultOf(name);
  if (off) return off;
  if (!checked) return missing(agent.tools?.includes(name) === true);
  if (!checked.ok) return fault('INVALID_ARGUMENTS', checked.message);
  const hash = callHash(name, checked.args);
  if (timesMade(sorted.made, hash) >= MAX_EQUAL_CALLS)
    return fault(
      'TOO_MANY_EQUAL_CALLS',
      `this call was made ${MAX_EQUAL_CALLS} times already: go on without it`,
    );
  const needsApproval = tools.needsApproval(name);
  if (tools.agentOf(name) && sorted.jobs.filter(beginsRun).length >= runsLeft(context.run))
    return NO_RUNS_LEFT;
  sorted.made.push(hash);
  const place = jobId(context, sorted.jobs.length);
  const make = needsApproval ? approvalJob : callJob;
  sorted.jobs.push(make(context, place, { tool: name, args: checked.args }));
  const asked = { jobId: place, callId: call.id, tool: name, hash };
  sorted.asked.push(needsApproval ? { ...asked, toApprove: { args: checked.args } } : asked);
  return undefined;
}

const timesMade = (made: readonly string[], hash: string): number =>
  made.filter((each) => each === hash).length;

const jobId = ({ runId, run }: StepContext, at: number): string => `${runId}.${run.step + 1}.${at}`;

interface CallToMake {
  readonly tool: string;
  readonly args: unknown;
  /** A person has allowed it. */
  readonly isApproved?: boolean;
}

/** The call of an agent is a run of it; only one that works in the background is started by a tool. */
function callJob(context: StepContext, id: string, call: CallToMake): ChildJob {
  const { tool, args, isApproved = false } = call;
  const agent = context.tools.agentOf(tool);
  if (!agent || agent.isBackground) return toolJob(context, id, call);
  const asked = { input: (args as { readonly input: string }).input };
  return runJob(context, id, { agent: agent.name, asked, event: 'tool_call', isApproved });
}

function toolJob(context: StepContext, id: string, { tool, args, isApproved }: CallToMake): ChildJob {
  const { run, priority, tools } = context;
  const isEffectful = tools.effectOf(tool) === 'effectful';
  const payload: ToolPayload = {
    agent: run.agent.name,
    tool,
    args,
    ...(isApproved && { approved: true }),
    ...(tools.agentOf(tool) && { starts: startedBelow(context) }),
  };
  return {
    job_id: id,
    type: TOOL_TYPE,
    ...tools.placeOf(tool),
    priority,
    tags: {
      agent: run.agent.name,
      event: 'tool_call',
      tool,
      category: tools.categoryOf(tool),
      ...(isApproved && { approved: 'yes' }),
    },
    timeout_ms: tools.timeoutOf(tool),
    // A call that may have been made is not made again where that would do it twice: a person decides.
    on_unknown: isEffectful ? 'hold' : 'retry',
    max_tries: isEffectful ? 1 : 3,
    payload,
  };
}

/** A run in the background has no more than what is left now, also after this run and its budget have ended. */
function startedBelow({ left }: StepContext): StartedBelow {
  const budget = smallerBudget({
    ...(left?.tokens !== undefined && { tokens: Math.max(1, left.tokens) }),
    ...(left?.cost !== undefined && { cost: Math.max(1, left.cost) }),
  });
  return { max_runs: 0, ...(budget && { budget }) };
}

export function approvalJob(
  { run, runId, priority }: StepContext,
  id: string,
  { tool, args }: CallToMake,
): ChildJob {
  const { name: agent, approval_wait_ms: waitMs = DEFAULT_APPROVAL_WAIT_MS } = run.agent;
  const payload: CallToApprove = { agent, tool, args, waitMs };
  const tags: ApprovalTags = { run: runId, agent, event: 'approval', tool, hash: callHash(tool, args) };
  return { job_id: id, type: APPROVAL_TYPE, priority, tags, payload };
}

const callHash = (tool: string, args: unknown): string => stableHash([tool, args]);

/**
 * Makes the calls in `asked`: those that were allowed by now, and those that were not admitted before. The model is told
 * of those that can no longer be made.
 */
function makeCalls(context: StepContext): Next {
  const { run } = context;
  const jobs: ChildJob[] = [];
  const asked: AskedTool[] = [];
  const refusals: ChatMessage[] = [];
  const faults: { readonly tool: string; readonly code: CallFaultCode }[] = [];
  for (const each of run.asked) {
    const id = jobId(context, jobs.length);
    const made = noRunsFor(context, each, jobs) ?? jobOf(context, each, id);
    if ('job_id' in made) {
      jobs.push(made);
      asked.push({ ...each, jobId: id });
    } else {
      refusals.push(toolMessage(each.callId, `error: ${made.message}`));
      faults.push({ tool: each.tool, code: made.code });
    }
  }
  const messages = [...run.messages, ...refusals];
  const steps = [...run.steps, ...faultNotes(faults)];
  if (jobs.length === 0) return goTo(run, 'llm_call', { messages, steps, asked, refusals: 0 });
  return { run: { ...run, messages, steps, asked, step: run.step + 1 }, jobs };
}

/** A run that was not admitted before has given its part back; one that was allowed by now has none yet. */
function noRunsFor(
  { run, tools }: StepContext,
  { tool }: AskedTool,
  jobs: readonly ChildJob[],
): CallFault | undefined {
  if (!tools.agentOf(tool)) return undefined;
  return jobs.filter(beginsRun).length >= runsLeft(run) ? NO_RUNS_LEFT : undefined;
}

/** The arguments of a call that nobody must allow are in the answer of the model, and nowhere else. */
function jobOf(
  context: StepContext,
  { tool, callId, toApprove, isApproved }: AskedTool,
  id: string,
): ChildJob | CallFault {
  const { run, tools, left } = context;
  const off = isOutOfTime(left) ? OUT_OF_TIME : tools.faultOf(tool);
  if (off) return off;
  if (toApprove)
    return isApproved
      ? callJob(context, id, { tool, args: toApprove.args, isApproved })
      : approvalJob(context, id, { tool, args: toApprove.args });
  const checked = tools.check(tool, writtenArguments(run, callId));
  if (!checked) return missing(true);
  return checked.ok
    ? callJob(context, id, { tool, args: checked.args })
    : fault('INVALID_ARGUMENTS', checked.message);
}

/** The text of the arguments, as the model wrote it. */
function writtenArguments({ messages }: StepContext['run'], callId: string): string {
  const answer = messages.findLast(({ role }) => role === 'assistant');
  return answer?.tool_calls?.find((each) => each.id === callId)?.function.arguments ?? '';
}

/** The arguments of a call that a person must allow by now; undefined for a tool that is gone. */
function argumentsOf({ run, tools }: StepContext, { tool, callId }: AskedTool): AskedTool['toApprove'] {
  const checked = tools.check(tool, writtenArguments(run, callId));
  return checked?.ok ? { args: checked.args } : undefined;
}

/** Tells the model what came of its calls. Those that were only allowed by now, or not admitted for now, are made. */
function takeResults(context: StepContext): Next {
  const { run, ended = [] } = context;
  const byJob = new Map(ended.map((call) => [call.jobId, call]));
  const messages = [...run.messages];
  const steps = [...run.steps];
  const made = [...run.made];
  const pauseMs = pauseAfter(run.refusals);
  const refused: AskedTool[] = [];
  const toMake: AskedTool[] = [];
  for (const each of run.asked) {
    const call = byJob.get(each.jobId);
    const isApproval = each.toApprove !== undefined && !each.isApproved;
    if (call && pauseMs !== undefined && isRefusedForNow(call)) {
      refused.push(each);
      continue;
    }
    const toApprove = call?.error?.code === 'APPROVAL_REQUIRED' ? argumentsOf(context, each) : undefined;
    if (toApprove && !isApproval) {
      toMake.push({ ...each, toApprove, isApproved: false });
      continue;
    }
    if (isApproval && approvalIn(call)?.approved) {
      toMake.push({ ...each, isApproved: true });
      continue;
    }
    const isInDoubt = !isApproval && mayBeDone(context, each.tool, call);
    // No such call is made again.
    if (isInDoubt) while (timesMade(made, each.hash) < MAX_EQUAL_CALLS) made.push(each.hash);
    const text = isApproval ? deniedText(call) : textOf(call, context.tools.outputBytesOf(each.tool));
    messages.push(toolMessage(each.callId, isInDoubt ? text + MAY_BE_DONE : text));
    steps.push(stepNote(each, call));
  }
  const told = { messages, steps, made, ...startedIn(context, byJob) };
  const asked = [...toMake, ...refused];
  if (asked.length === 0) return goTo(run, 'llm_call', { ...told, asked, refusals: 0 });
  if (toMake.length > 0) return makeCalls({ ...context, run: { ...run, ...told, asked } });
  return {
    run: { ...run, ...told, asked, refusals: run.refusals + 1 },
    jobs: [],
    pauseMs: pauseMs as number,
  };
}

/** The runs that go on in the background from now on. */
function startedIn(
  { run: { asked, background = [] }, tools }: StepContext,
  byJob: ReadonlyMap<string, EndedCall>,
): Pick<StepContext['run'], 'background'> {
  const started = asked.flatMap(({ jobId, tool }) => {
    if (!tools.agentOf(tool)?.isBackground) return [];
    const { run } = (byJob.get(jobId)?.result ?? {}) as { readonly run?: unknown };
    return typeof run === 'string' ? [run] : [];
  });
  return started.length === 0 ? {} : { background: [...background, ...started] };
}

export const approvalIn = (call: EndedCall | undefined): Approval | undefined =>
  call?.error ? undefined : (call?.result as Approval | undefined);

export function deniedText(call: EndedCall | undefined): string {
  const why = approvalIn(call)?.why;
  return `error: the call was denied${why === undefined ? '' : `: ${cut(why)}`}`;
}

/** The text for the model about a call that has ended. A person may have settled the call, with any result. */
export function textOf(call: EndedCall | undefined, maxBytes: number | undefined): string {
  if (!call) return 'error: the result of this call is no longer kept';
  if (call.error?.code === 'GOVERNANCE_DENIED')
    return `error: the call is not allowed: ${cut(call.error.message)}. Go on without it.`;
  if (call.error) return `error:\n${markedData(cut(call.error.message))}`;
  const { result } = call;
  if (result === null || result === undefined) return 'done';
  if (typeof result === 'string') return markedData(cut(result));
  const { ok = true, text } = result as { ok?: unknown; text?: unknown };
  const whole = cut(typeof text === 'string' ? text : JSON.stringify(result));
  const said = markedData(maxBytes === undefined ? whole : cutText(whole, maxBytes));
  return ok === false ? `error:\n${said}` : said;
}

/** True for a call with an effect that was given up while it ran, or is no longer kept: it may have been done all the same. */
function mayBeDone({ tools }: StepContext, tool: string, call: EndedCall | undefined): boolean {
  if (tools.effectOf(tool) !== 'effectful') return false;
  if (!call) return true;
  if (call.error) return GIVEN_UP.includes(call.error.code);
  const { why, started } = (call.result ?? {}) as Partial<Extract<ToolResult, { ok: false }>>;
  return why !== undefined && why !== 'failed' && started === true;
}

/** The errors of a job that was stopped while it ran. */
const GIVEN_UP: readonly string[] = ['WORKER_TIMEOUT', 'CANCELLED', 'DEADLINE_EXCEEDED'];

const MAY_BE_DONE = '\nIt may have been done all the same: do not call it again';

function stepNote({ jobId, tool }: AskedTool, call: EndedCall | undefined): StepNote {
  const { ok, code, approved } = (call?.result ?? {}) as Partial<ToolResult & Approval> & { code?: string };
  const failure = approved === false ? 'DENIED' : ok === false ? (code ?? 'TOOL_FAILED') : undefined;
  const error = call?.error?.code ?? failure;
  return {
    event: 'tool_call',
    job_id: jobId,
    tool,
    duration_ms: call?.durationMs ?? 0,
    ...(error !== undefined && { error }),
  };
}
