/** Schemas of the HTTP requests and answers about replays and forks of runs. */
import { Type } from 'typebox';
import { AgentDefinition, RunFork, RunRequest } from '../agent.ts';
import { StartRun } from './runs.ts';
import { answerObject, requestObject, type Shape } from './shape.ts';

const optional = Type.Optional;

export const ReplayRun = requestObject({
  agent: optional(
    Type.Union([Type.Literal('current'), AgentDefinition], {
      description:
        'The agent whose steps are run: by default that of the run as it began; "current" is the one of the configuration',
    }),
  ),
});
export type ReplayRun = Shape<typeof ReplayRun>;

const StepDifference = Type.Object({
  step: Type.Integer({ description: 'The first step that differs' }),
  event: Type.String({
    description: 'Its kind: `plan`, `llm_call`, `tool_call`, `approval`; `end` for the result of the run',
  }),
  job_id: optional(Type.String({ description: 'The call that differs' })),
  field: Type.String({ description: 'The first field that differs, such as `payload.messages[2].content`' }),
  recorded: Type.String({ description: 'A short text about what was asked, at the place that differs' }),
  replayed: Type.String({ description: 'The same of what would be asked' }),
  text: Type.String({ description: 'Human-readable; may change' }),
});

export const ReplayView = answerObject('Replay', {
  run_id: Type.String(),
  agent: Type.String({ description: 'The name of the agent' }),
  against: Type.Enum(['recorded', 'current', 'given'], { description: 'Whose steps were run' }),
  equal: Type.Boolean({
    description: 'Every step that is recorded asks for the same, and the result is the same',
  }),
  steps: Type.Integer({ description: 'Steps that ask for the same, until the end or the first difference' }),
  has_end: Type.Boolean({ description: 'The replay came to an end of the run, and compared its result' }),
  difference: optional(StepDifference),
});
export type ReplayView = Shape<typeof ReplayView>;

export const ForkRun = requestObject({
  run_id: StartRun.properties.run_id,
  step: RunFork.properties.step,
  model: RunFork.properties.model,
  instructions: RunFork.properties.instructions,
  input: optional(
    Type.String({
      minLength: 1,
      description: 'A further message of the user, told before the step; only for a step that asks the model',
    }),
  ),
  priority: StartRun.properties.priority,
  deadline_ms: StartRun.properties.deadline_ms,
  budget: RunRequest.properties.budget,
  max_steps: RunRequest.properties.max_steps,
  tags: StartRun.properties.tags,
});
export type ForkRun = Shape<typeof ForkRun>;

/** The version of the files in which runs are saved. */
export const SAVED_RUN_VERSION = 1;

export const SavedRun = Type.Record(Type.String(), Type.Unknown(), {
  title: 'SavedRun',
  description:
    'The run with its request, its agent, its calls and their results, for `orchd eval`; `orchd_run` is the version of the form',
});
