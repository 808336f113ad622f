/** The output of `orchd show`: everything about a job. */
import type { AttemptView, JobCost, JobView } from '../../model/http/jobs.ts';
import type { Terminal } from '../command.ts';
import { durationText, instantText } from './duration.ts';
import {
  adviceFor,
  codeText,
  nextStep,
  paintedState,
  placeText,
  resultText,
  stateText,
  tookText,
} from './job-text.ts';
import { moneyText } from './money.ts';
import { harmless, oneLine, paintState } from './screen.ts';

/** Without `include=payload` a job has no payload of more bytes. */
const SHOWN_PAYLOAD_BYTES = 4096;

interface PageOptions {
  /** The currency of the costs, if the job has a cost. */
  readonly currency?: string;
  /** The payload was asked for, whatever its size. */
  readonly withPayload?: boolean;
}

export function jobText(
  job: JobView,
  terminal: Terminal,
  now: number,
  { currency = '', withPayload = false }: PageOptions = {},
): string {
  const cost: Row = ['cost', job.cost && costText(job.cost, currency)];
  const rows = [...askRows(job), ...stateRows(job, terminal, now), cost].filter(
    ([, value]) => value !== undefined,
  );
  const width = Math.max(...rows.map(([name]) => name.length));
  const lines = rows.map(([name, value]) => `${name.padEnd(width)}  ${value}`);
  return [
    lines.join('\n'),
    payloadPart(job, withPayload),
    attemptsText(job.attempts, currency),
    errorText(job),
    resultPart(job),
    nextStep(job),
  ]
    .filter((part) => part !== undefined)
    .join('\n\n');
}

type Row = readonly [name: string, value: string | number | undefined];

/** `best; left claude (rate limited), gpt (error)` */
function routeText({ name, left }: NonNullable<JobView['route']>): string {
  const steps = left.map(({ model, why }) => `${model} (${why.replaceAll('_', ' ')})`).join(', ');
  return steps === '' ? name : `${name}; left ${steps}`;
}

function askRows(job: JobView): Row[] {
  const rows: Row[] = [
    ['job', job.job_id],
    ['type', job.type],
    ['model', job.model],
    ['route', job.route && routeText(job.route)],
    ['priority', job.priority],
    ['score', job.score === 0 ? undefined : job.score],
    ['agent', job.agent],
    ['session', job.session_id],
    ['key', job.key],
  ];
  return rows.map(([name, value]) => [name, typeof value === 'string' ? oneLine(value) : value]);
}

function stateRows(job: JobView, terminal: Terminal, now: number): Row[] {
  const reason = job.reason === undefined ? '' : ` (${oneLine(job.reason)})`;
  const cancelRequested = job.cancel_requested && job.state !== 'cancelled' ? ', cancel requested' : '';
  const place = placeText(job);
  return [
    ['state', paintState(paintedState(job), oneLine(stateText(job)), terminal) + reason + cancelRequested],
    ['waits', job.waiting && oneLine(job.waiting.text).replace(/^waits /, '')],
    ['queue', place === '' ? undefined : place],
    ['tries', `${job.tries} of ${job.max_tries} failed`],
    ['created', `${instantText(job.created_at)}, ${durationText(now - job.created_at)} ago`],
    ['started', job.started_at === undefined ? undefined : instantText(job.started_at)],
    [
      'ended',
      job.ended_at === undefined
        ? undefined
        : [instantText(job.ended_at), tookText(job)].filter(Boolean).join(', '),
    ],
    ['tokens', job.usage && `${job.usage.prompt_tokens} in, ${job.usage.completion_tokens} out`],
  ];
}

function payloadPart(job: JobView, wasAsked: boolean): string | undefined {
  const { job_id: id, payload, payload_bytes: bytes } = job;
  if (payload !== undefined) return `payload\n${harmless(payloadText(payload))}`;
  if (bytes === undefined) return undefined;
  // A deleted session takes the payloads of its jobs with it.
  const isGone = wasAsked || bytes <= SHOWN_PAYLOAD_BYTES;
  return `payload\n(${bytes} bytes: ${isGone ? 'nobody can read it any more' : `orchd show ${id} --payload prints it`})`;
}

/** The prompt, if the payload is nothing else; anything else as JSON. */
function payloadText(payload: unknown): string {
  const { prompt, ...others } = (payload ?? {}) as Readonly<Record<string, unknown>>;
  const isPrompt = typeof prompt === 'string' && Object.keys(others).length === 0;
  return isPrompt ? prompt : JSON.stringify(payload, undefined, 2);
}

function attemptsText(attempts: readonly AttemptView[], currency: string): string | undefined {
  if (attempts.length === 0) return undefined;
  const lines = attempts.map((attempt) => {
    const end =
      attempt.ended_at === undefined ? '' : `, ${durationText(attempt.ended_at - attempt.intended_at)}`;
    const outcome = attempt.outcome === undefined ? attempt.state : attempt.outcome;
    const error = attempt.error ? `: ${oneLine(attempt.error.message)} (${codeText(attempt.error)})` : '';
    const cost = attempt.cost ? `, ${attemptCostText(attempt.cost, currency)}` : '';
    return `  ${attempt.attempt}  ${oneLine(attempt.backend)}  ${oneLine(outcome)}${end}${cost}${error}`;
  });
  return ['attempts', ...lines].join('\n');
}

/** `0.42 USD, 0.10 USD of it assumed; 0.05 USD reserved`. */
function costText({ amount, assumed, reserved }: JobCost, currency: string): string {
  const ofIt = assumed === 0 ? '' : `, ${moneyText(assumed, currency)} of it assumed`;
  const held = reserved === 0 ? '' : `; ${moneyText(reserved, currency)} reserved`;
  return `${moneyText(amount, currency)}${ofIt}${held}`;
}

function attemptCostText(cost: NonNullable<AttemptView['cost']>, currency: string): string {
  if (cost.amount === undefined)
    return `${moneyText(cost.reserved, currency)} reserved${cost.is_bound ? ' at most' : ''}`;
  const text = moneyText(cost.amount, currency);
  if (cost.basis === 'assumed') return `${text} assumed`;
  const excess = cost.is_bound ? cost.amount - cost.reserved : 0;
  return excess > 0 ? `${text}, ${moneyText(excess, currency)} more than its bound` : text;
}

function errorText({ state, error }: JobView): string | undefined {
  if (!error) return undefined;
  const advice = adviceFor(error, state);
  return `error  ${harmless(error.message)} (${codeText(error)})${advice === undefined ? '' : `\n       ${advice}`}`;
}

const resultPart = ({ result }: JobView): string | undefined =>
  result === undefined ? undefined : `result\n${harmless(resultText(result))}`;
