/**
 * A run of an agent: its state between two steps, and what a step is given and returns (docs/decisions/0034).
 *
 * Nothing about a run is kept anywhere else: the job of the run keeps this state while it waits, and every call of a model
 * or a tool is a job below it.
 */

import type { AgentDefinition, RunBudget } from '../model/agent.ts';
import type { ErrorInfo } from '../model/errors.ts';
import type { JobCost } from '../model/http/jobs.ts';
import type { Checkpoint, StepEvent, StepTags } from '../model/run-jobs.ts';
import type { ToolCall } from '../model/worker-wire.ts';
import type { DecisionInput } from './replay/run-record.ts';
import type { BudgetLeft, CalledAgent, RunReport } from './run-facts.ts';
import { mayMoveRun, type RunPhase } from './run-phases.ts';
import { DATA_NOTE } from './steps/tool-messages.ts';

export type { BudgetLeft, CalledAgent, RunReport };

/** A message in OpenAI's form. */
export interface ChatMessage {
  readonly role: 'system' | 'user' | 'assistant' | 'tool';
  readonly content: string;
  readonly tool_calls?: readonly ToolCall[];
  readonly tool_call_id?: string;
}

/** One finished call of a model or a tool, as the result of the run shows it. */
export interface StepNote {
  readonly event: StepEvent;
  /** Absent for calls of tools that the model asked for and that were not made: `error` says why. */
  readonly job_id?: string;
  readonly model?: string;
  readonly tool?: string;
  readonly duration_ms: number;
  readonly tokens_used?: number;
  readonly error?: string;
  /** How many calls of one answer were not made for this reason. */
  readonly count?: number;
}

/** A call of a tool that the run waits for. */
export interface AskedTool {
  readonly jobId: string;
  readonly callId: string;
  readonly tool: string;
  /** The hash of tool and arguments. */
  readonly hash: string;
  /** Set where somebody must allow the call: what is called then. */
  readonly toApprove?: { readonly args: unknown };
  /** Somebody has allowed it: the call itself is made. */
  readonly isApproved?: boolean;
  /** Of a run of another agent: the runs that it takes from those that may still begin, with itself. */
  readonly runs?: number;
}

/** A person must say that the run may go on. `jobId`: the job that waits for the answer, once it was asked for. */
export interface OpenCheckpoint {
  readonly at: Checkpoint;
  readonly jobId?: string;
}

export interface RunState {
  /** The agent as it was when the run began: a change of it does not change a run under way. */
  readonly agent: AgentDefinition;
  readonly phase: RunPhase;
  /** What the model is told before all messages: one message, or none. */
  readonly system: readonly ChatMessage[];
  /** Those of the session, and then those of this run. */
  readonly messages: readonly ChatMessage[];
  /** The number of messages that the session had when the run began. */
  readonly heard: number;
  /** Steps with jobs so far: part of the ids of these jobs. */
  readonly step: number;
  /** Calls of the model that have ended well. */
  readonly answers: number;
  /** Failures in a row of the call of the model that is to be made. */
  readonly failures: number;
  /** The calls of the model in a row of which nobody knows whether it has answered; absent in older states. */
  readonly unknowns?: number;
  /** The refusals in a row of the call of the model, or of the calls of tools, for reasons that may pass. */
  readonly refusals: number;
  /** The hash of tool and arguments of every call that was made. */
  readonly made: readonly string[];
  /** The calls of tools that the run waits for, or that it makes again after a pause because they were not admitted. */
  readonly asked: readonly AskedTool[];
  /** The model was asked to correct an answer that was not of the form of `output`. */
  readonly isRepairing: boolean;
  /** The call that is made, or was made last, is the last one: a budget leaves no room for more. */
  readonly isWrappingUp?: boolean;
  /** What the run and all jobs below it may use. */
  readonly budget?: RunBudget;
  /** The runs of other agents that may still begin below it; absent until one has begun. */
  readonly runsLeft?: number;
  /** The branches have answered: the synthesis asks the model to merge what they said. */
  readonly isMerging?: boolean;
  readonly checkpoint?: OpenCheckpoint;
  /** The runs that it has started in the background and whose end it was not told. */
  readonly background?: readonly string[];
  readonly steps: readonly StepNote[];
  /** What the calls that have ended have cost; absent where none has a price. */
  readonly cost?: JobCost;
  readonly reply?: string;
  readonly error?: RunError;
  /** The number of decisions so far, for replay; absent in states of versions that noted no inputs. */
  readonly decisions?: number;
  /** What decisions depended on that no other record has. */
  readonly inputs: readonly DecisionInput[];
}

export interface RunError {
  readonly code: string;
  readonly message: string;
}

/** The end of a job below the run. */
export interface EndedCall {
  readonly jobId: string;
  readonly result: unknown;
  /** Set where it has not succeeded. */
  readonly error?: Pick<ErrorInfo, 'code' | 'message' | 'retriable' | 'reason'>;
  /** The job was not admitted. */
  readonly isRefused?: boolean;
  readonly durationMs: number;
  /** Absent where it has no price. */
  readonly cost?: JobCost;
}

/** The tools of the agent, as far as a step needs to know them. */
export interface ToolOffer {
  /** In OpenAI's form, for the model. */
  readonly definitions: readonly object[];
  /** Checks the arguments that a model wrote; undefined for a tool that the agent does not have. */
  check(tool: string, argumentsText: string): CheckedArguments | undefined;
  effectOf(tool: string): 'pure' | 'idempotent' | 'effectful';
  /** What the tool does, for the rules of governance. */
  categoryOf(tool: string): string;
  timeoutOf(tool: string): number;
  needsApproval(tool: string): boolean;
  /** The kind of backend that makes the calls, and the labels that it has. */
  placeOf(tool: string): { readonly backend: string; readonly labels?: Readonly<Record<string, string>> };
  /** The agent that a call is a run of; undefined for all other tools. */
  agentOf(tool: string): CalledAgent | undefined;
  /** Why a tool that the agent has is not called now. */
  faultOf(tool: string): ToolFault | undefined;
  /** The most of a command's output that the model is told; undefined for tools that see to it themselves. */
  outputBytesOf(tool: string): number | undefined;
}

export interface ToolFault {
  readonly code: 'TOOL_CHANGED' | 'TOOL_GONE';
  /** For the model. */
  readonly message: string;
}

export type CheckedArguments =
  | { readonly ok: true; readonly args: unknown }
  | { readonly ok: false; readonly message: string };

/** A request for a job below the run, in the form in which callers submit jobs. */
export type ChildJob = Readonly<Record<string, unknown>> & {
  readonly job_id: string;
  readonly tags: StepTags;
};

export interface StepContext {
  readonly runId: string;
  /** The class of the run's jobs. */
  readonly priority: 'interactive' | 'batch';
  readonly run: RunState;
  /** The jobs that the last step has asked for; undefined where this step has just been entered. */
  readonly ended: readonly EndedCall[] | undefined;
  readonly tools: ToolOffer;
  /** What is left of the budgets of the run and of those above it; undefined without one. */
  readonly left?: BudgetLeft | undefined;
}

/** The outcome of a step: the next state of the run, and what it waits for. If that is nothing, the next step follows at once. */
export interface Next {
  readonly run: RunState;
  readonly jobs: readonly ChildJob[];
  /** The step is entered again after this time. */
  readonly pauseMs?: number;
}

export type Step = (context: StepContext) => Next;

/** Throws for a move that the table does not have, which is a defect. */
export function goTo(run: RunState, phase: RunPhase, changes: Partial<RunState> = {}): Next {
  if (!mayMoveRun(run.phase, phase)) throw new Error(`illegal move of a run ${run.phase} -> ${phase}`);
  return { run: { ...run, ...changes, phase }, jobs: [] };
}

export const fail = (run: RunState, code: string, message: string): Next =>
  goTo(run, 'failed', { error: { code, message } });

/** `conversation`: the messages of the session so far. */
export function newRun(
  agent: AgentDefinition,
  asked: readonly ChatMessage[],
  conversation: readonly ChatMessage[] = [],
  budget?: RunBudget | undefined,
): RunState {
  const { instructions = '', tools = [], branches = [] } = agent;
  const hearsData = tools.length > 0 || branches.length > 0;
  const told = [instructions, hearsData ? DATA_NOTE : ''].filter((text) => text !== '').join('\n\n');
  return {
    agent,
    phase: 'init',
    system: told === '' ? [] : [{ role: 'system', content: told }],
    messages: [...conversation, ...asked],
    heard: conversation.length,
    step: 0,
    answers: 0,
    failures: 0,
    unknowns: 0,
    refusals: 0,
    made: [],
    asked: [],
    isRepairing: false,
    ...(budget && { budget }),
    steps: [],
    decisions: 0,
    inputs: [],
  };
}
