/** An agent as people write it: which model it asks, what it is told, and what it may do. */
import { type Static, Type } from 'typebox';
import { CATEGORY } from './governance.ts';
import { JOB_ID, MODEL } from './job-spec.ts';
import { CHECKPOINTS } from './run-jobs.ts';

/** Part of a model's name `agent:NAME`, of a path and of job ids. */
export const AGENT_NAME = '^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$';
export const TOOL_NAME = '^[A-Za-z0-9_-]{1,64}$';

const optional = Type.Optional;

/** When a run plans before it answers. */
export const PlanRule = Type.Union([
  Type.Literal('never'),
  Type.Literal('always'),
  Type.Object(
    {
      min_characters: Type.Integer({
        minimum: 1,
        maximum: 1_000_000,
        description: 'It plans where what was asked has at least this many characters',
      }),
    },
    { additionalProperties: false },
  ),
]);

/** What one run may use, with all jobs below it. A little of each is kept back for a last answer. */
export const RunBudget = Type.Object(
  {
    tokens: optional(
      Type.Integer({ minimum: 1, maximum: 1e12, description: 'Tokens of all calls of models, in and out' }),
    ),
    cost: optional(
      Type.Integer({ minimum: 1, maximum: 1e15, description: 'Money, in millionths of the currency' }),
    ),
    wall_ms: optional(
      Type.Integer({ minimum: 1, maximum: 3.2e10, description: 'Time from its submit to its end' }),
    ),
  },
  { additionalProperties: false },
);
export type RunBudget = Static<typeof RunBudget>;

export const AgentDefinition = Type.Object(
  {
    name: Type.String({ pattern: AGENT_NAME }),
    description: optional(Type.String({ maxLength: 1000, description: 'For people who choose an agent' })),
    model: Type.String({ pattern: MODEL, description: 'The model, or the route, that it asks' }),
    fallback: optional(
      Type.String({
        pattern: MODEL,
        description: 'The model that is asked where the other has failed twice',
      }),
    ),
    instructions: optional(Type.String({ maxLength: 65_536, description: 'What the model is told first' })),
    tools: optional(
      Type.Array(Type.String({ pattern: TOOL_NAME }), {
        maxItems: 64,
        uniqueItems: true,
        description: 'The tools that the model may ask for, and other agents that it may call like tools',
      }),
    ),
    branches: optional(
      Type.Array(Type.String({ pattern: AGENT_NAME }), {
        minItems: 1,
        maxItems: 16,
        uniqueItems: true,
        description:
          'Other agents that work on the question at once, each in a run of its own, before the model merges what they say',
      }),
    ),
    background: optional(
      Type.Array(Type.String({ pattern: AGENT_NAME }), {
        maxItems: 64,
        uniqueItems: true,
        description:
          'Those of its `tools` that are agents and work in the background: a call returns at once, and the answer is told later',
      }),
    ),
    checkpoints: optional(
      Type.Array(Type.Enum([...CHECKPOINTS]), {
        maxItems: CHECKPOINTS.length,
        uniqueItems: true,
        description:
          'Where a person must say that the run may go on: after the `plan`, before each round of `tools`, before the `synthesis`',
      }),
    ),
    max_runs: optional(
      Type.Integer({
        minimum: 0,
        maximum: 10_000,
        description: 'Runs of other agents below one run, at any depth; 64 by default',
      }),
    ),
    plan: optional(PlanRule),
    output: optional(
      Type.Record(Type.String(), Type.Unknown(), {
        description: 'A JSON Schema: the answer is JSON of this form, with one try to correct it',
      }),
    ),
    tool_choice: optional(
      Type.Enum(['auto', 'required'], {
        description:
          '`required`: the model must call a tool before it may answer; by default (`auto`) it decides itself',
      }),
    ),
    max_steps: optional(
      Type.Integer({
        minimum: 1,
        maximum: 1000,
        description: 'Calls of the model at most; the last one must answer. 20 by default',
      }),
    ),
    budget: optional(RunBudget),
    max_tokens: optional(
      Type.Integer({ minimum: 1, maximum: 10_000_000, description: 'Of one answer of the model' }),
    ),
    parallel_tools: optional(
      Type.Integer({
        minimum: 1,
        maximum: 64,
        description: 'Calls of tools that one answer may ask for; 8 by default',
      }),
    ),
    timeout_ms: optional(
      Type.Integer({ minimum: 1000, maximum: 3.2e10, description: 'Of one call of the model' }),
    ),
    approve: optional(
      Type.Array(Type.String({ pattern: TOOL_NAME }), {
        maxItems: 64,
        uniqueItems: true,
        description: 'The tools that are called only after a person has allowed it, each time',
      }),
    ),
    categories: optional(
      Type.Array(Type.String({ pattern: CATEGORY }), {
        maxItems: 32,
        uniqueItems: true,
        description:
          'What its tools, and those of the agents below it, may do: read, write, network …; all by default',
      }),
    ),
    approval_wait_ms: optional(
      Type.Integer({
        minimum: 1000,
        maximum: 2_592_000_000,
        description: 'How long a call waits to be allowed; then it is denied. 5 minutes by default',
      }),
    ),
  },
  { additionalProperties: false },
);
export type AgentDefinition = Static<typeof AgentDefinition>;

export const DEFAULT_MAX_STEPS = 20;
export const DEFAULT_PARALLEL_TOOLS = 8;
export const DEFAULT_APPROVAL_WAIT_MS = 300_000;
export const DEFAULT_MAX_RUNS = 64;
/** So many runs stand below each other at most: agents that call each other more deeply are refused. */
export const MAX_RUN_DEPTH = 5;

/** A message in OpenAI's form, as far as a caller may write one. */
export const GivenMessage = Type.Object(
  {
    role: Type.Enum(['system', 'user', 'assistant']),
    content: Type.String(),
  },
  { additionalProperties: false },
);

export type GivenMessage = Static<typeof GivenMessage>;

/** Where a fork goes on from, and with what. */
export const RunFork = Type.Object(
  {
    run: Type.String({ pattern: JOB_ID, description: 'The run whose steps are taken' }),
    step: Type.Integer({
      minimum: 1,
      maximum: 1e9,
      description: 'The first step that is made anew; the steps before it are taken from the run',
    }),
    model: optional(AgentDefinition.properties.model),
    instructions: AgentDefinition.properties.instructions,
  },
  { additionalProperties: false },
);
export type RunFork = Static<typeof RunFork>;

/** The question that a run answers: a text, or the messages of a conversation. */
export const RunRequest = Type.Object(
  {
    agent: Type.String({ pattern: AGENT_NAME }),
    input: optional(Type.String({ minLength: 1 })),
    messages: optional(Type.Array(GivenMessage, { minItems: 1, maxItems: 10_000 })),
    repeats_history: optional(
      Type.Literal(true, {
        description:
          'The messages repeat the conversation so far: in a session only those behind the last answer count',
      }),
    ),
    budget: optional(RunBudget),
    max_steps: AgentDefinition.properties.max_steps,
    max_runs: AgentDefinition.properties.max_runs,
    apart: optional(
      Type.Literal(true, {
        description:
          'It neither hears the conversation of its session nor adds to it: a run below another one',
      }),
    ),
    fork: optional(RunFork),
  },
  { additionalProperties: false },
);
export type RunRequest = Static<typeof RunRequest>;
