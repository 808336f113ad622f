/** Schemas of the limits, as they are written in the configuration and in HTTP requests and answers. */
import { type Static, Type } from 'typebox';
import { answerObject } from './shape.ts';

const optional = Type.Optional;
/** The lowest rate is one per eleven days: 0 is refused, because a limit cannot be used to allow nothing at all. */
const rate = (description: string) => Type.Number({ minimum: 1e-6, maximum: 1e12, description });
const burst = (description: string) => Type.Number({ exclusiveMinimum: 0, maximum: 1e12, description });

export const MAX_LIMITS = 10_000;

export const WrittenLimit = Type.Object(
  {
    scope: Type.String({
      minLength: 1,
      maxLength: 400,
      description:
        'What is limited: global, tenant:T, agent:T/NAME, token:NAME or (of another tenant than the default) token:T/NAME, session:T/ID, model:NAME, pool:NAME (of workers) or pool:consumers/NAME, seat:BACKEND, route:NAME or root:T/JOB (a job and all below it); * as the last part limits each of them separately',
    }),
    requests_per_sec: optional(rate('Jobs admitted per second')),
    tokens_per_sec: optional(rate('Tokens of prompts and answers per second')),
    burst_requests: optional(burst('Jobs admitted at once; by default those of one second')),
    burst_tokens: optional(burst('Tokens admitted at once; by default those of one second')),
    concurrency: optional(
      Type.Integer({ minimum: 1, maximum: 1e9, description: 'Jobs that are admitted and have not ended' }),
    ),
    token_budget: optional(
      Type.Integer({
        minimum: 1,
        maximum: Number.MAX_SAFE_INTEGER,
        description: 'Tokens in a window; by default in total, never refilled',
      }),
    ),
    running: optional(
      Type.Integer({
        minimum: 0,
        maximum: 1e9,
        description: 'Jobs that run at once: those over it wait, in order; 0 is a pause',
      }),
    ),
    cost_budget: optional(
      Type.Integer({
        minimum: 0,
        maximum: Number.MAX_SAFE_INTEGER,
        description: 'Cost in a window, in millionths of the currency',
      }),
    ),
    window: optional(
      Type.Union(
        [
          Type.Literal('hour'),
          Type.Literal('day'),
          Type.Literal('week'),
          Type.Literal('month'),
          Type.Literal('total'),
        ],
        { description: 'When the budgets start anew; "total" by default: never' },
      ),
    ),
    time_zone: optional(
      Type.String({ minLength: 1, maxLength: 64, description: 'Time zone of the window; UTC by default' }),
    ),
    hard: optional(
      Type.Boolean({
        description:
          'Whether cost_budget is never exceeded: a job starts only if the most that it can cost fits; by default the budget only warns',
      }),
    ),
  },
  { title: 'Limit', additionalProperties: false },
);
export type WrittenLimit = Static<typeof WrittenLimit>;

export const SetLimits = Type.Object(
  { limits: Type.Array(WrittenLimit, { maxItems: MAX_LIMITS }) },
  { additionalProperties: false },
);

export const LimitsView = answerObject('Limits', {
  limits: Type.Array(WrittenLimit),
  keys: optional(
    Type.Array(WrittenLimit, {
      description:
        'The budgets that tokens have by the token file, with the scope key:NAME or key:T/NAME; they hold beside `limits`',
    }),
  ),
  imposed: optional(
    Type.Array(WrittenLimit, {
      description:
        'Only for tenants other than the default: limits that the operator has set for this tenant; they hold beside `limits`',
    }),
  ),
});
