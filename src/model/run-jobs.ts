/** The types of jobs that runs of agents are made of. Without a schema, which would take long to load. */

/** Jobs of this type are runs: their payload is a RunRequest. */
export const RUN_TYPE = 'agent';
/** Jobs of this type are calls of tools. Only runs make them: whoever could choose the arguments needs no agent. */
export const TOOL_TYPE = 'tool';

/** Jobs of this type wait for a person to allow the call of a tool; only runs make them. Their payload is a CallToApprove. */
export const APPROVAL_TYPE = 'approval';

/** The types of jobs that callers cannot submit. */
export const RUN_JOB_TYPES: readonly string[] = [TOOL_TYPE, APPROVAL_TYPE];

/** The types of jobs that the brain runs itself: another backend that took one would answer in the place of an agent. */
export const OWN_TYPES: readonly string[] = [RUN_TYPE, ...RUN_JOB_TYPES];

/** The payload of a job of type TOOL_TYPE. */
export interface ToolPayload {
  readonly agent: string;
  readonly tool: string;
  readonly args: unknown;
  /** A person has allowed this call. */
  readonly approved?: boolean;
}

/** A call of a tool as it is shown to the person who allows it, and as it is made then. */
export interface CallToApprove {
  readonly agent: string;
  readonly tool: string;
  readonly args: unknown;
  /** After this time without an answer the call is denied. */
  readonly waitMs: number;
}

/** The tags of such a job. */
export interface ApprovalTags {
  readonly run: string;
  readonly agent: string;
  readonly tool: string;
  /** The hash of tool and arguments: whoever answers may repeat it, to allow this call and no other. */
  readonly hash: string;
}

/** The result of a job of type APPROVAL_TYPE. */
export interface Approval {
  readonly approved: boolean;
  readonly by?: string;
  readonly why?: string;
}
