/** What a run notes of its decisions, in the form in which its state and its result keep it (decision-input.ts). */
import type { AgentDefinition } from '../../model/agent.ts';
import type { RefusedChild } from '../../model/waiting.ts';
import type { BudgetLeft, CalledAgent, RunReport } from '../run-facts.ts';

/** What was used when the decision was made, of what the budget of the run limits. */
export interface UsedBudget {
  readonly tokens?: number;
  readonly cost?: number;
  /** The milliseconds since the submit of the run. */
  readonly ms?: number;
}

/** A tool that the run had, as far as steps ask for it; models are told its definition in the payloads of their calls. */
export interface ToolFacts {
  readonly name: string;
  readonly effect: 'pure' | 'idempotent' | 'effectful';
  readonly category: string;
  readonly timeoutMs: number;
  readonly needsApproval: boolean;
  readonly backend: string;
  readonly outputBytes?: number;
  /** Set where a call is a run of an agent. */
  readonly agent?: CalledAgent;
}

/** Arguments of a model that the tool did not accept. */
export interface BadArguments {
  readonly tool: string;
  /** The hash of the text of the arguments. */
  readonly hash: string;
  readonly message: string;
}

/** Why a tool that the run had was not called at this decision. */
export interface NotedFault {
  readonly tool: string;
  readonly code: 'TOOL_CHANGED' | 'TOOL_GONE';
  readonly message: string;
}

export interface DecisionInput {
  /** The number of the decision in its run, from 0. */
  readonly n: number;
  readonly used?: UsedBudget;
  /** The jobs that the decision before asked for and that were not admitted. */
  readonly refused?: readonly RefusedChild[];
  /** The jobs that had ended, and were no longer kept. */
  readonly gone?: readonly string[];
  /** The tools, where they are not those of the decision before. */
  readonly tools?: readonly ToolFacts[];
  readonly badArguments?: readonly BadArguments[];
  readonly faults?: readonly NotedFault[];
  /** What the runs above left it of their budgets. */
  readonly above?: BudgetLeft;
  /** Runs in the background that had ended, whether or not the model was told of them at this decision. */
  readonly reports?: readonly RunReport[];
}

/** What a run keeps of itself for replay, in its state and in its result. */
export interface RunRecord {
  readonly v: 1;
  /** The definition with which the run began. */
  readonly agent: AgentDefinition;
  /** The number of messages that its session had when the run began. */
  readonly heard: number;
  /** The number of decisions that the run has made. */
  readonly decisions: number;
  readonly inputs: readonly DecisionInput[];
  /** The decision after these has thrown, which is a defect of orchd and has ended the run. */
  readonly hasDefect?: boolean;
}
