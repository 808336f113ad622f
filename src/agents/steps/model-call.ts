/** A call of the model as a job below the run, and what comes of its end: another try, the fallback, or the answer. */
import type { ModelRole } from '../../model/run-jobs.ts';
import type { ToolCall } from '../../model/worker-wire.ts';
import { allowanceOf } from '../budget.ts';
import {
  type EndedCall,
  fail,
  type Next,
  type RunState,
  type StepContext,
  type StepNote,
} from '../run-state.ts';
import { boundedCall } from './call-faults.ts';
import { isRefusedForNow, pauseAfter } from './refusals.ts';

/** The texts of answers and of tools are cut to this many characters before they are kept. */
const MAX_TEXT = 262_144;

/** The model is asked twice before the fallback is. */
const TRIES_PER_MODEL = 2;

/**
 * Calls in a row that were cut off, by the death of a process as a rule, and are made again as if they had not been
 * made: that is no fault of the model. Each further one counts as a failure, because the question itself may be what
 * kills the process.
 */
const MAX_UNKNOWNS = 3;

export interface ModelRequest {
  readonly event: 'plan' | 'llm_call' | 'synthesis';
  /** A text for the model in this call alone, after the messages of the run. */
  readonly note?: string;
  readonly tools?: readonly object[];
  /** The model must ask for one of the tools. */
  readonly mustCall?: boolean;
}

export interface ModelAnswer {
  readonly text: string;
  readonly toolCalls: readonly ToolCall[];
}

const WRAP_UP_NOTE =
  'The budget of this task is used up: no tools are left. Give your final answer now, short, with what you know so far.';

/** Asks for the call, and the run waits. Where the budget has no room for more, it is the last call, without tools. */
export function askModel(context: StepContext, request: ModelRequest): Next {
  const { run } = context;
  const allowed = allowanceOf(context, [...run.system, ...run.messages], WRAP_UP_NOTE);
  if (allowed.is === 'nothing') return fail(run, BUDGET_EXHAUSTED, allowed.message);
  const { maxTokens } = allowed;
  if (allowed.is === 'call') return call(context, request, maxTokens);
  const wrapUp = { event: request.event, note: WRAP_UP_NOTE };
  return call({ ...context, run: { ...run, isWrappingUp: true } }, wrapUp, maxTokens);
}

/** Whether the next call would be the last one. */
export const isShortOfBudget = (context: StepContext): boolean =>
  allowanceOf(context, [...context.run.system, ...context.run.messages], WRAP_UP_NOTE).is !== 'call';

function call(context: StepContext, request: ModelRequest, maxTokens: number | undefined): Next {
  const { run, runId, priority } = context;
  const { agent } = run;
  const step = run.step + 1;
  const messages = [...run.system, ...run.messages];
  if (request.note !== undefined) messages.push(note(request.note));
  const job = {
    job_id: `${runId}.${step}`,
    type: 'inference',
    model: modelFor(context),
    priority,
    tags: { agent: agent.name, event: request.event, model_role: roleOf(context, request) },
    // Another try is the decision of the run, which may ask another model.
    max_tries: 1,
    after_output: 'retry',
    ...(run.failures > 0 && { force_retry: true }),
    ...(agent.timeout_ms !== undefined && { timeout_ms: agent.timeout_ms }),
    payload: {
      messages,
      ...(maxTokens !== undefined && { max_tokens: maxTokens }),
      ...toolsOf(request),
    },
  };
  return { run: { ...run, step }, jobs: [job] };
}

function toolsOf({ tools = [], mustCall = false }: ModelRequest): object {
  if (tools.length === 0) return {};
  return mustCall ? { tools, tool_choice: 'required' } : { tools };
}

/** The end of the call: what the model said, or what the run does without it. */
export function takeAnswer(
  context: StepContext,
  event: ModelRequest['event'],
  again: (context: StepContext) => Next,
): { readonly answer: ModelAnswer; readonly run: RunState } | Next {
  const { run } = context;
  const ended = context.ended?.[0];
  if (!ended) return fail(run, 'NOT_FOUND', 'the result of a call of the model is no longer kept');
  const noted = { ...run, steps: [...run.steps, stepNote(context, ended, event)] };
  if (!ended.error) {
    const answer = answerOf(ended.result);
    return { answer, run: { ...noted, failures: 0, unknowns: 0, refusals: 0, answers: run.answers + 1 } };
  }
  if (isOverBudget(context, ended)) {
    if (run.isWrappingUp) return fail(noted, BUDGET_EXHAUSTED, ended.error.message);
    return again({ ...context, run: { ...noted, isWrappingUp: true }, ended: undefined });
  }
  const pauseMs = pauseBefore(run, ended);
  if (pauseMs !== undefined) return { run: { ...run, refusals: run.refusals + 1 }, jobs: [], pauseMs };
  const { unknowns = 0 } = run;
  if (mayBeAskedAgain(ended) && unknowns < MAX_UNKNOWNS)
    return again({ ...context, run: { ...noted, unknowns: unknowns + 1 }, ended: undefined });
  const failures = failuresAfter(run.failures, ended);
  const mayTry = failures < TRIES_PER_MODEL * (run.agent.fallback === undefined ? 1 : 2);
  if (!mayTry) return fail({ ...noted, failures }, ended.error.code, ended.error.message);
  return again({ ...context, run: { ...noted, failures }, ended: undefined });
}

/** A model that the rules of governance forbid is not asked a second time. */
const failuresAfter = (failures: number, { error }: EndedCall): number =>
  error?.code === 'GOVERNANCE_DENIED'
    ? failures - (failures % TRIES_PER_MODEL) + TRIES_PER_MODEL
    : failures + 1;

/**
 * Nobody knows whether the model has answered, and `on_unknown` of the call is `retry`. A call that is held instead has
 * not ended, and one that somebody has settled as failed, or whose rule is `fail`, has failed.
 */
const mayBeAskedAgain = ({ error }: EndedCall): boolean =>
  error?.code === 'UNKNOWN_OUTCOME' && error.retriable;

/** The code of a run that its budget leaves no answer. */
const BUDGET_EXHAUSTED = 'BUDGET_EXHAUSTED';

const BUDGET_REASONS: readonly (string | undefined)[] = ['token_budget', 'cost_budget'];

/** Whether the call was not made, or was cut off, because of a budget: of the run, or of something else that it counts to. */
const isOverBudget = ({ left }: StepContext, { error }: EndedCall): boolean =>
  (error?.code === 'ADMISSION_REJECT' && BUDGET_REASONS.includes(error.reason)) ||
  (error?.code === 'DEADLINE_EXCEEDED' && left?.untilEndMs !== undefined);

/**
 * How long the run waits before it asks again; undefined where asking again is of no use. A model that has answered in
 * this run and is unknown now comes back: after a restart of the brain its server may not have reported yet.
 */
function pauseBefore({ refusals, answers }: RunState, ended: EndedCall): number | undefined {
  const comesBack = ended.isRefused && ended.error?.code === 'MODEL_NOT_FOUND' && answers > 0;
  return comesBack || isRefusedForNow(ended) ? pauseAfter(refusals) : undefined;
}

export const cut = (text: string): string =>
  text.length <= MAX_TEXT
    ? text
    : `${text.slice(0, MAX_TEXT)}\n[cut: ${text.length - MAX_TEXT} characters more]`;

const note = (content: string) => ({ role: 'system', content }) as const;

const modelFor = ({ run }: StepContext): string =>
  (asksFallback(run) ? run.agent.fallback : undefined) ?? run.agent.model;

const asksFallback = ({ agent, failures }: RunState): boolean =>
  failures >= TRIES_PER_MODEL && agent.fallback !== undefined;

function roleOf({ run }: StepContext, { event }: ModelRequest): ModelRole {
  if (asksFallback(run)) return 'fallback';
  if (event === 'plan') return 'planner';
  return run.isRepairing ? 'repair' : 'primary';
}

function stepNote(context: StepContext, ended: EndedCall, event: ModelRequest['event']): StepNote {
  const tokens = tokensOf(ended.result);
  return {
    event,
    job_id: ended.jobId,
    model: modelFor(context),
    duration_ms: ended.durationMs,
    ...(tokens !== undefined && { tokens_used: tokens }),
    ...(ended.error && { error: ended.error.code }),
  };
}

function fieldsOf(result: unknown): Readonly<Record<string, unknown>> {
  return typeof result === 'object' && result !== null ? (result as Record<string, unknown>) : {};
}

/** A worker's result, or any JSON value of another backend, which is shown as its own text. */
function answerOf(result: unknown): ModelAnswer {
  if (typeof result === 'string') return { text: cut(result), toolCalls: [] };
  const { text, tool_calls: calls } = fieldsOf(result);
  const toolCalls = Array.isArray(calls) ? calls.filter(isToolCall).map(boundedCall) : [];
  if (typeof text === 'string') return { text: cut(text), toolCalls };
  return { text: toolCalls.length > 0 ? '' : cut(JSON.stringify(result) ?? ''), toolCalls };
}

function isToolCall(value: unknown): value is ToolCall {
  const { id, function: asked } = fieldsOf(value);
  const { name, arguments: args } = fieldsOf(asked);
  return typeof id === 'string' && typeof name === 'string' && typeof args === 'string';
}

function tokensOf(result: unknown): number | undefined {
  const { prompt_tokens: prompt, completion_tokens: completion } = fieldsOf(fieldsOf(result)['usage']);
  return typeof prompt === 'number' && typeof completion === 'number' ? prompt + completion : undefined;
}
