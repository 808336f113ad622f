/** The types of jobs that runs of agents are made of. Without a schema, which would take long to load. */

/** Jobs of this type are runs: their payload is a RunRequest. */
export const RUN_TYPE = 'agent';
/** Jobs of this type are calls of tools. Only runs make them: whoever could choose the arguments needs no agent. */
export const TOOL_TYPE = 'tool';

/** Jobs of this type wait for a person to allow the call of a tool; only runs make them. Their payload is a CallToApprove. */
export const APPROVAL_TYPE = 'approval';

/** Jobs of this type tell a session how a run has ended that works in the background. Their payload is a Report. */
export const REPORT_TYPE = 'report';

/** The types of jobs that callers cannot submit. */
export const RUN_JOB_TYPES: readonly string[] = [TOOL_TYPE, APPROVAL_TYPE, REPORT_TYPE];

/** The types of jobs that the brain runs itself: another backend that took one would answer in the place of an agent. */
export const OWN_TYPES: readonly string[] = [RUN_TYPE, ...RUN_JOB_TYPES];

/** Whether the id is that of a call of the model (`<run>.<step>`); those of tools have one part more. */
export const isModelCall = (runId: string, jobId: string): boolean =>
  jobId.startsWith(`${runId}.`) && /^\d+$/.test(jobId.slice(runId.length + 1));

/**
 * What happens when a call is made twice. `pure`: it only reads. `idempotent`: a second call changes nothing more.
 * `effectful`: a second call does it again, so a call whose outcome is unknown waits for a person.
 */
export type ToolEffect = 'pure' | 'idempotent' | 'effectful';

/** The payload of a job of type TOOL_TYPE. */
export interface ToolPayload {
  readonly agent: string;
  readonly tool: string;
  readonly args: unknown;
  /** A person has allowed this call. */
  readonly approved?: boolean;
  /** Of calls of agents that work in the background: what the run may use that the call starts. */
  readonly starts?: StartedBelow;
}

/** What a run that works in the background may use: it may outlive the run that has started it, and its budget. */
export interface StartedBelow {
  readonly max_runs: number;
  readonly budget?: { readonly tokens?: number; readonly cost?: number };
}

/** The payload of a job of type REPORT_TYPE: which run has ended, and the session that is told. */
export interface Report {
  readonly run: string;
  readonly session: string;
}

/**
 * `failed`: the tool threw. `timeout`, `cancelled` and `output` (a command that wrote too much): the call was given up, so
 * that it is not known whether the tool has done its work, unless `started` is false.
 */
export type ToolFailure = 'failed' | 'timeout' | 'cancelled' | 'output';

/** The result of a job of type TOOL_TYPE. */
export type ToolResult =
  /** `run`: the run that the call has started in the background. */
  | { readonly ok: true; readonly text: string; readonly run?: string }
  | { readonly ok: false; readonly text: string; readonly why: ToolFailure; readonly started: boolean };

/** The places between the steps of a run where a person may have to say that it goes on. */
export const CHECKPOINTS = ['plan', 'tools', 'synthesis'] as const;
export type Checkpoint = (typeof CHECKPOINTS)[number];

/** A call of a tool as it is shown to the person who allows it, and as it is made then. */
export interface CallToApprove {
  readonly agent: string;
  /** Absent at a checkpoint between two steps: there `args` shows what has been done so far. */
  readonly tool?: string;
  readonly args: unknown;
  /** After this time without an answer the call is denied. */
  readonly waitMs: number;
}

/** The kinds of steps, in telemetry, in the events of runs and in their results. */
export type StepEvent = 'plan' | 'branch' | 'llm_call' | 'tool_call' | 'approval' | 'synthesis';

/**
 * Why a call of a model was made: `planner` makes the plan, `primary` is the model of the agent, `fallback` is asked where
 * that has failed, `repair` corrects the form of an answer.
 */
export type ModelRole = 'planner' | 'primary' | 'fallback' | 'repair';

/** The tags of the jobs below a run: what they are, without a look into their bodies. */
export interface StepTags {
  readonly agent: string;
  readonly event: StepEvent;
  readonly model_role?: ModelRole;
  readonly tool?: string;
  /** Of calls of tools: what the tool does, for the rules of governance. */
  readonly category?: string;
  /** Of calls of tools: a person has allowed this one. */
  readonly approved?: 'yes';
}

/** The tags of a run that is a fork: the run that it goes on from, and the first step that it has made itself. */
export const FORK_TAGS = { run: 'forked_from', step: 'forked_step' } as const;

/** The tags of a job of type APPROVAL_TYPE. */
export interface ApprovalTags extends StepTags {
  readonly run: string;
  /** Set instead of `tool` where the run waits between two steps. */
  readonly checkpoint?: Checkpoint;
  /** The hash of tool and arguments: whoever answers may repeat it, to allow this call and no other. */
  readonly hash: string;
}

/** The result of a job of type APPROVAL_TYPE. */
export interface Approval {
  readonly approved: boolean;
  readonly by?: string;
  readonly why?: string;
}

/** The tag with which a person's answer is passed on to the job that it allows. */
export const APPROVED_TAG = 'approved';

/** The category of calls of agents, for the rules of governance. */
export const AGENT_CATEGORY = 'agent';

/** The label of an attempt of a tool that has failed: its job has succeeded, since the model is told of it. */
export const FAILED_TOOL = 'tool-failed';

/** What an attempt of a run did, as its label says it (AttemptRecord.label). */
export interface RunLabel {
  readonly agent: string;
  /** The phase in which the attempt found the run, and those that it entered, in order. */
  readonly phases: readonly string[];
  /** A step has thrown, which is a defect of orchd. */
  readonly isDefect: boolean;
}

const LABEL = /^([A-Za-z0-9_-]+)\/([a-z_,]+)(!?)$/;

export const runLabelText = ({ agent, phases, isDefect }: RunLabel): string =>
  `${agent}/${phases.join()}${isDefect ? '!' : ''}`;

/** Undefined for a text that is no label of a run. */
export function runLabelIn(text: string | undefined): RunLabel | undefined {
  const [, agent, phases, defect] = LABEL.exec(text ?? '') ?? [];
  if (agent === undefined || phases === undefined) return undefined;
  return { agent, phases: phases.split(','), isDefect: defect === '!' };
}
