/**
 * The calls of tools that the model asked for, each a job of its own, all at once. What cannot be called and what fails is
 * told to the model, and does not end the run.
 */
import { stableHash } from '../../kit/hash.ts';
import { DEFAULT_PARALLEL_TOOLS, TOOL_TYPE } from '../../model/agent.ts';
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
import { askedCalls } from './llm-call.ts';
import { cut } from './model-call.ts';

/** A call with the same arguments is made so often in a run; then the model is told to go on without it. */
const MAX_EQUAL_CALLS = 3;

export const toolExecution: Step = (context) => (context.ended ? takeResults(context) : callTools(context));

interface Sorted {
  readonly jobs: ChildJob[];
  readonly asked: AskedTool[];
  /** What the model is told of calls that are not made. */
  readonly refusals: ChatMessage[];
  readonly made: Record<string, number>;
}

function callTools(context: StepContext): Next {
  const { run } = context;
  const sorted: Sorted = { jobs: [], asked: [], refusals: [], made: { ...run.made } };
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
  const hash = stableHash([name, checked.args]);
  const made = (sorted.made[hash] ?? 0) + 1;
  if (made > MAX_EQUAL_CALLS) return `this call was made ${MAX_EQUAL_CALLS} times already: go on without it`;
  sorted.made[hash] = made;
  const job = toolJob(context, name, checked.args, sorted.jobs.length);
  sorted.jobs.push(job);
  sorted.asked.push({ jobId: job.job_id, callId: call.id, tool: name });
  return undefined;
}

function toolJob({ runId, run, priority, tools }: StepContext, tool: string, args: unknown, at: number) {
  const isEffectful = tools.effectOf(tool) === 'effectful';
  return {
    job_id: `${runId}.${run.step + 1}.${at}`,
    type: TOOL_TYPE,
    priority,
    timeout_ms: tools.timeoutOf(tool),
    // A call that may have been made is not made again where that would do it twice: a person decides.
    on_unknown: isEffectful ? 'hold' : 'retry',
    max_tries: isEffectful ? 1 : 3,
    payload: { agent: run.agent.name, tool, args },
  };
}

function takeResults({ run, ended = [] }: StepContext): Next {
  const byJob = new Map(ended.map((call) => [call.jobId, call]));
  const messages = [...run.messages];
  const steps = [...run.steps];
  for (const asked of run.asked) {
    const call = byJob.get(asked.jobId);
    messages.push(toolMessage(asked.callId, textOf(call)));
    steps.push(stepNote(asked, call));
  }
  return goTo(run, 'llm_call', { messages, steps, asked: [] });
}

/** The result of a job of a tool. */
interface ToolResult {
  readonly ok: boolean;
  readonly text: string;
}

function textOf(call: EndedCall | undefined): string {
  if (!call) return 'error: the result of this call is no longer kept';
  if (call.error) return `error: ${call.error.message}`;
  const { ok, text } = call.result as ToolResult;
  return ok ? cut(text) : `error: ${cut(text)}`;
}

function stepNote({ jobId, tool }: AskedTool, call: EndedCall | undefined): StepNote {
  const error =
    call?.error?.code ?? ((call?.result as ToolResult | undefined)?.ok === false ? 'TOOL_FAILED' : undefined);
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
