/** What a tool is, and what it needs: a brain that does the work, time, and somebody to tell how far it is. */
import type { Static, TObject } from 'typebox';
import type { Clock, Timers } from '../../kit/env/env.ts';
import type { JobPage, JobView, SubmittedTask } from '../../model/http/jobs.ts';
import type {
  AgentView,
  ApprovalList,
  ApprovalQuery,
  ApproveCall,
  RunView,
  StartedRun,
  StartRun,
} from '../../model/http/runs.ts';
import type { ListRequest, SubmitRequest } from '../../model/submit.ts';

/**
 * The calls of a brain that tools make. The client library has them, for `orchd mcp`; on the brain itself they are the
 * routes of its HTTP API. So a tool can do what its caller can do over HTTP, and nothing else.
 */
export interface ToolBrain {
  submit(request: SubmitRequest): Promise<SubmittedTask>;
  get(jobId: string): Promise<JobView>;
  list(request: ListRequest): Promise<JobPage>;
  cancel(jobId: string): Promise<JobView>;
  agents(): Promise<readonly AgentView[]>;
  startRun(
    agent: string,
    request: StartRun,
    options?: { readonly signal?: AbortSignal },
  ): Promise<StartedRun>;
  run(runId: string): Promise<RunView>;
  approvalPage(query: ApprovalQuery): Promise<ApprovalList>;
  approve(runId: string, answer: ApproveCall): Promise<RunView>;
}

/** How far a call is, for the client that waits for it. */
export interface Progress {
  readonly progress: number;
  readonly total: number;
  readonly message: string;
}

export interface ToolContext {
  readonly brain: ToolBrain;
  readonly clock: Pick<Clock, 'monotonic'>;
  readonly timers: Timers;
  readonly newId: () => string;
  /** Aborted when the client cancels the call, or is gone. */
  readonly signal: AbortSignal;
  readonly onProgress: (progress: Progress) => void;
}

export interface Tool {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  /** The schema of the arguments: they are checked with it, and the client is shown it. */
  readonly input: TObject;
  /** The operation of the HTTP API that it performs; whoever may not perform that is not offered the tool. */
  readonly operation: string;
  /** Hints for the client, which decides by them whether to ask its user first. */
  readonly hints: ToolHints;
  /** It may hold its call open for a while. */
  readonly waits: boolean;
  call(args: unknown, context: ToolContext): Promise<Readonly<Record<string, unknown>>>;
}

export interface ToolHints {
  readonly readOnlyHint: boolean;
  readonly destructiveHint?: boolean;
  readonly idempotentHint?: boolean;
  readonly openWorldHint: boolean;
}

export const READS: ToolHints = { readOnlyHint: true, openWorldHint: false };

interface ToolDefinition<S extends TObject> extends Omit<Tool, 'input' | 'call' | 'waits'> {
  readonly input: S;
  readonly waits?: true;
  call(args: Static<S>, context: ToolContext): Promise<Readonly<Record<string, unknown>>>;
}

/** Defines a tool whose `call` gets arguments of the form of `input`. */
export const tool = <S extends TObject>(definition: ToolDefinition<S>): Tool => ({
  ...definition,
  waits: definition.waits ?? false,
  call: (args, context) => definition.call(args as Static<S>, context),
});

/** An error of a tool, with ids that its caller needs to ask again. */
export class ToolFailure extends Error {
  readonly ids: Readonly<Record<string, string>>;

  constructor(cause: unknown, ids: Readonly<Record<string, string>>) {
    super('the call of a tool failed', { cause });
    this.ids = ids;
  }
}
