/**
 * What a run may still use. The core holds tokens and money (admission/tree-budget.ts); here is decided when the model is
 * asked for its last answer, so that the run ends with one before its budget does.
 */
import type { RunBudget } from '../model/agent.ts';
import type { JobBudget, JobView } from '../model/http/jobs.ts';
import { estimateTokens } from '../runtime/estimate.ts';
import type { BudgetLeft, ChatMessage, StepContext } from './run-state.ts';

/** At this share of its time a run asks for its last answer. */
const WRAP_UP_SHARE = 0.85;
/** Runs below another one may use so much of its tokens and money. */
const SHARE_BELOW = 0.75;
/** Kept back for the last answer, beside its input. */
const WRAP_UP_TOKENS = 128;
/** A call for which less is left than this for the answer is made as the last one. */
const MIN_ANSWER_TOKENS = 64;
/** An answer shorter than this is of no use. */
const MIN_LAST_TOKENS = 16;
/** The longest last answer after a refusal. */
const MAX_LAST_TOKENS = 256;
/** The longest answer under a budget of money where neither the agent nor its tokens bound it: without, nobody knows the cost. */
const DEFAULT_ANSWER_TOKENS = 1024;

/** The smaller number of each; undefined where neither has any. */
export function smallerBudget(...budgets: readonly (RunBudget | undefined)[]): RunBudget | undefined {
  const least = (name: keyof RunBudget): number =>
    Math.min(...budgets.map((budget) => budget?.[name] ?? Number.POSITIVE_INFINITY));
  const names = ['tokens', 'cost', 'wall_ms'] as const;
  const limited = names.filter((name) => Number.isFinite(least(name)));
  if (limited.length === 0) return undefined;
  return Object.fromEntries(limited.map((name) => [name, least(name)]));
}

export function leftOf(
  { tokens, cost, wall_ms: wallMs }: RunBudget,
  { budget, created_at: from }: Pick<JobView, 'budget' | 'created_at'>,
  now: number,
): BudgetLeft {
  const passedMs = Math.max(0, now - from);
  return {
    ...(tokens !== undefined && { tokens: tokens - (budget?.tokens_used ?? 0) }),
    ...(cost !== undefined && { cost: cost - (budget?.cost_used ?? 0) }),
    ...(wallMs !== undefined && {
      untilWrapUpMs: Math.floor(wallMs * WRAP_UP_SHARE) - passedMs,
      untilEndMs: wallMs - passedMs,
    }),
  };
}

/**
 * What runs with these budgets leave to those below them: a part is kept back for the last answer of the run above, to
 * whatever those below have said.
 */
export function leftBelow(budgets: readonly JobBudget[]): BudgetLeft | undefined {
  const each = budgets.map(
    ({ tokens, tokens_used = 0, cost, cost_used = 0 }): BudgetLeft => ({
      ...(tokens !== undefined && { tokens: Math.floor(tokens * SHARE_BELOW) - tokens_used }),
      ...(cost !== undefined && { cost: Math.floor(cost * SHARE_BELOW) - cost_used }),
    }),
  );
  return each.reduce<BudgetLeft | undefined>(lessLeft, undefined);
}

/** Of each number the smaller one. */
export function lessLeft(one: BudgetLeft | undefined, other: BudgetLeft | undefined): BudgetLeft | undefined {
  if (!one || !other) return one ?? other;
  const names = ['tokens', 'cost', 'untilWrapUpMs', 'untilEndMs'] as const;
  const least = names.map((name) => [
    name,
    Math.min(one[name] ?? Number.POSITIVE_INFINITY, other[name] ?? Number.POSITIVE_INFINITY),
  ]);
  return Object.fromEntries(least.filter(([, number]) => Number.isFinite(number)));
}

export type Allowance =
  /** `maxTokens`: the longest answer; undefined without a bound. */
  | { readonly is: 'call' | 'wrap-up'; readonly maxTokens: number | undefined }
  | { readonly is: 'nothing'; readonly message: string };

/** What the next call of the model may be. `note`: what the model is told where it is the last one. */
export function allowanceOf(
  { run, left }: StepContext,
  messages: readonly ChatMessage[],
  note: string,
): Allowance {
  const { max_tokens: own } = run.agent;
  if (!left)
    return { is: run.isWrappingUp ? 'wrap-up' : 'call', maxTokens: run.isWrappingUp ? lastTokens(own) : own };
  const { tokens, cost, untilWrapUpMs = 1, untilEndMs = 1 } = left;
  if (untilEndMs <= 0) return { is: 'nothing', message: 'the time of the run is used up' };
  if (cost !== undefined && cost <= 0) return { is: 'nothing', message: 'the money of the run is used up' };
  const bound = own ?? (cost === undefined ? undefined : DEFAULT_ANSWER_TOKENS);
  const most = tokens === undefined ? bound : atMost(bound, callTokens(tokens, messages));
  const isLast = run.isWrappingUp || untilWrapUpMs <= 0;
  const isShort =
    tokens !== undefined && (most ?? 0) < Math.min(bound ?? MIN_ANSWER_TOKENS, MIN_ANSWER_TOKENS);
  if (!isLast && !isShort) return { is: 'call', maxTokens: most };
  const last = isShort || !run.isWrappingUp ? bound : lastTokens(bound);
  if (tokens === undefined) return { is: 'wrap-up', maxTokens: last };
  const rest = tokens - inputOf([...messages, { role: 'system', content: note }]);
  if (rest < MIN_LAST_TOKENS) return { is: 'nothing', message: 'the tokens of the run are used up' };
  return { is: 'wrap-up', maxTokens: atMost(last, rest) };
}

/** After a refusal for a budget that is not known here: a quarter, so that it may fit into what is left. */
const lastTokens = (bound: number | undefined): number =>
  Math.max(MIN_LAST_TOKENS, Math.min(MAX_LAST_TOKENS, Math.floor((bound ?? DEFAULT_ANSWER_TOKENS) / 4)));

/** The longest answer after which the last one, to all that was said until then, still fits. */
const callTokens = (tokens: number, messages: readonly ChatMessage[]): number =>
  Math.floor((tokens - 2 * inputOf(messages) - WRAP_UP_TOKENS) / 2);

/** As admission estimates the input of such a call. */
const inputOf = (messages: readonly ChatMessage[]): number =>
  estimateTokens({ messages, max_tokens: 0 })?.tokens ?? 0;

const atMost = (bound: number | undefined, most: number): number =>
  Math.min(bound ?? Number.POSITIVE_INFINITY, most);
