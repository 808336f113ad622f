/** Schemas of the HTTP requests and answers about agents and their runs. */
import { Type } from 'typebox';
import { AGENT_NAME, RunRequest } from '../agent.ts';
import { NAME, SPEC_FIELDS } from '../job-spec.ts';
import { CHECKPOINTS } from '../run-jobs.ts';
import { ListRequest } from '../submit.ts';
import { JobCost, JobPage, JobPause, JobView } from './jobs.ts';
import { answerObject, Instant, orNull, requestObject, type Shape } from './shape.ts';

const optional = Type.Optional;

/** A run makes ids for its jobs by adding numbers to its own: its own ends in none, so that the two cannot meet. */
export const RUN_ID = '^(?!\\.{1,2}$)(?!.*\\.[0-9]+$)[A-Za-z0-9._-]{1,100}$';

export const StartRun = requestObject({
  run_id: optional(
    Type.String({
      pattern: RUN_ID,
      description: 'The id of the run: a second request with the same id starts none',
    }),
  ),
  input: RunRequest.properties.input,
  messages: RunRequest.properties.messages,
  session_id: SPEC_FIELDS.session_id,
  priority: SPEC_FIELDS.priority,
  deadline_ms: SPEC_FIELDS.deadline_ms,
  budget: RunRequest.properties.budget,
  max_steps: RunRequest.properties.max_steps,
  tags: SPEC_FIELDS.tags,
  max_runs: RunRequest.properties.max_runs,
  report_to: optional(
    Type.String({
      pattern: NAME,
      description: 'Another session, which is told how the run has ended: a message of the user',
    }),
  ),
});
export type StartRun = Shape<typeof StartRun>;

export const StartedRun = answerObject('StartedRun', {
  run_id: Type.String(),
  agent: Type.String({ pattern: AGENT_NAME }),
  version: Type.String({ description: 'The version of the agent now' }),
  duplicate: optional(Type.Boolean({ description: 'The run was there already' })),
  events_url: Type.String({ description: 'Path of the events of the run' }),
});
export type StartedRun = Shape<typeof StartedRun>;

export const AgentView = answerObject('Agent', {
  name: Type.String(),
  description: optional(Type.String()),
  model: Type.String({ description: 'The model, or the route, that it asks' }),
  tools: Type.Array(Type.String()),
  unconfined: optional(
    Type.Array(Type.String(), {
      description:
        'Those of its tools that are commands and run without bubblewrap, which does not work on the machine: each call must be allowed',
    }),
  ),
  version: Type.String({ description: 'Another one after every change of the agent' }),
});
export type AgentView = Shape<typeof AgentView>;

export const AgentList = answerObject('AgentList', { agents: Type.Array(AgentView) });
export type AgentList = Shape<typeof AgentList>;

export const RUN_STATES = [
  'queued',
  'running',
  'llm_queued',
  'llm_call',
  'tool_execution',
  'awaiting_approval',
  'needs_decision',
  'paused',
  'completed',
  'failed',
  'cancelled',
] as const;
export type RunStateName = (typeof RUN_STATES)[number];

const StepView = Type.Object({
  event: Type.Enum(['plan', 'branch', 'llm_call', 'tool_call', 'approval', 'synthesis']),
  job_id: optional(
    Type.String({
      description: 'Absent for calls of tools that were asked for and not made: `error` says why',
    }),
  ),
  model: optional(Type.String()),
  tool: optional(Type.String()),
  duration_ms: Type.Number(),
  tokens_used: optional(Type.Integer()),
  error: optional(Type.String({ description: 'The code of what went wrong' })),
  count: optional(
    Type.Integer({ description: 'How many calls of one answer were not made for this reason' }),
  ),
});

export const RunView = answerObject('Run', {
  run_id: Type.String(),
  state: Type.Enum([...RUN_STATES], {
    description:
      'What it does now: `llm_queued` waits for a model, `awaiting_approval` for somebody to allow a call of a tool, `needs_decision` for somebody to settle a call whose outcome is unknown; `paused` starts nothing until it is resumed',
  }),
  created_at: Instant,
  ended_at: optional(Instant),
  paused: optional(
    Type.Object(
      {
        ...JobPause.properties,
        state: Type.Enum([...RUN_STATES], { description: 'What its state would be if it was not paused' }),
      },
      { description: 'Set while it is paused: since when, and by whom' },
    ),
  ),
  waits_for: optional(
    Type.Array(Type.Object({ job_id: Type.String(), type: Type.String(), state: JobView.properties.state }), {
      description: 'The jobs below it that it waits for',
    }),
  ),
  reply: optional(Type.String({ description: 'Its answer; what went wrong, if it has failed' })),
  steps: optional(Type.Array(StepView, { description: 'The calls that it made, in order' })),
  trace_id: optional(
    Type.String({ description: 'The trace of the request that started it, or one of its own' }),
  ),
  error: optional(orNull(Type.Object({ code: Type.String(), message: Type.String() }))),
  budget: JobView.properties.budget,
  cost: optional(JobCost),
  forked_from: optional(
    Type.Object(
      { run_id: Type.String(), step: Type.Integer() },
      { description: 'Of a fork: the run that it goes on from, and the first step that was made anew' },
    ),
  ),
});
export type RunView = Shape<typeof RunView>;

export const ApprovalView = answerObject('Approval', {
  call_id: Type.String({ description: 'The job that waits for the answer' }),
  run_id: Type.String(),
  agent: Type.String(),
  tool: optional(Type.String()),
  checkpoint: optional(
    Type.Enum([...CHECKPOINTS], {
      description: 'Instead of `tool`: the run itself waits here, and `args` shows what it has done so far',
    }),
  ),
  args: optional(
    Type.Unknown({
      description: 'What the tool is called with; absent above 4 KiB: the payload of the job has it',
    }),
  ),
  hash: Type.String({ description: 'Of tool and arguments, or of what a checkpoint shows' }),
  expires_at: optional(Instant),
});
export type ApprovalView = Shape<typeof ApprovalView>;

/** Each call is read with its arguments, so that a page has fewer than one of jobs. */
const MAX_APPROVALS = 200;

export const ApprovalQuery = requestObject({
  limit: optional(
    Type.Integer({ minimum: 1, maximum: MAX_APPROVALS, description: 'Maximum number of calls per page' }),
  ),
  cursor: ListRequest.properties.cursor,
});
export type ApprovalQuery = Shape<typeof ApprovalQuery>;

export const ApprovalList = answerObject('ApprovalList', {
  approvals: Type.Array(ApprovalView),
  cursor: JobPage.properties.cursor,
});
export type ApprovalList = Shape<typeof ApprovalList>;

export const DecideCall = requestObject({
  call_id: Type.String({ minLength: 1, maxLength: 128 }),
  as: Type.Enum(['retry', 'failed', 'succeeded'], {
    description: 'Make the call again, or go on as if it had failed or succeeded',
  }),
  result: optional(
    Type.Unknown({ description: 'What the model is told that the call returned; only with "succeeded"' }),
  ),
});
export type DecideCall = Shape<typeof DecideCall>;

export const ApproveCall = requestObject({
  call_id: Type.String({ minLength: 1, maxLength: 128 }),
  approve: Type.Boolean({ description: 'false denies the call' }),
  why: optional(
    Type.String({ maxLength: 1000, description: 'For the records, and for the model if it is denied' }),
  ),
  hash: optional(Type.String({ description: 'The hash that was shown: another call is not allowed by it' })),
});
export type ApproveCall = Shape<typeof ApproveCall>;
