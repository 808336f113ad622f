/** A tool: something that an agent's model may ask for. Each call of it is a job of its own. */

import type { ToolEffect } from '../../model/run-jobs.ts';

export type { ToolEffect };

/** A JSON Schema. */
export type JsonSchema = Readonly<Record<string, unknown>>;

export interface ToolContext {
  /** Aborted when the call is cancelled or runs into its timeout. */
  readonly signal: AbortSignal;
  /** The job of this call. */
  readonly jobId: string;
  readonly tenant: string;
}

export interface Tool {
  /** As models write it: `[A-Za-z0-9_-]{1,64}`. */
  readonly name: string;
  /** For the model: what it does and when to use it. */
  readonly description: string;
  /** A schema of an object: the arguments of a call are checked against it before the call is made. */
  readonly parameters: JsonSchema;
  readonly effect: ToolEffect;
  /** What it does, for the rules of governance: `read`, `write`, `network`, `command` …; `other` by default. */
  readonly category?: string;
  /** Checks what the schema cannot say of arguments that have its form; returns what is wrong, for the model. */
  readonly checkArguments?: (args: Readonly<Record<string, unknown>>) => string | undefined;
  /** A person is asked before each call. */
  readonly needsApproval?: boolean;
  readonly timeoutMs?: number;
  /** A longer result is cut, and says so. */
  readonly maxOutputBytes?: number;
  /** The result is given to the model: a text as it is, anything else as JSON. What is thrown is reported to the model. */
  run(args: never, context: ToolContext): unknown;
}
