/**
 * The payload of a call of a model whose answer the mode of governance bounds: it asks for at most so many tokens. What
 * is stored of the job stays as its caller wrote it.
 */
import type { Timers } from '../kit/env/env.ts';
import { JsonFaultError, parseInSlices } from '../kit/json-parser.ts';
import { atOnce, inSlices, ONE_TURN_BYTES } from '../kit/slices.ts';

/** The fields that bound an answer, in the spellings of the executors that there are. */
const OTHER_SPELLINGS = ['max_completion_tokens', 'max_output_tokens'] as const;
/** Payloads without any of these ask for no answer of a model, or for none that tokens bound. */
const QUESTIONS = ['prompt', 'messages'] as const;

/** `most`: undefined without a bound. */
export async function cappedPayload(text: string, most: number | undefined, timers: Timers): Promise<string> {
  if (most === undefined) return text;
  const payload = await parsed(text, timers);
  // Executors take a text for a prompt.
  if (typeof payload === 'string') return `{"prompt":${text},"max_tokens":${most}}`;
  if (typeof payload !== 'object' || payload === null) return text;
  const fields = payload as Readonly<Record<string, unknown>>;
  if (!QUESTIONS.some((name) => (fields[name] ?? undefined) !== undefined)) return text;
  const others = OTHER_SPELLINGS.filter((name) => (fields[name] ?? undefined) !== undefined);
  const lowered = ['max_tokens', ...others].filter((name) => !isWithin(fields[name], most));
  if (lowered.length === 0) return text;
  const bounds = JSON.stringify(Object.fromEntries(lowered.map((name) => [name, most])));
  // The last of two equal keys counts.
  return `${text.trimEnd().slice(0, -1)},${bounds.slice(1)}`;
}

const isWithin = (value: unknown, most: number): boolean =>
  Number.isInteger(value) && (value as number) >= 0 && (value as number) <= most;

async function parsed(text: string, timers: Timers): Promise<unknown> {
  try {
    const parsing = parseInSlices(text);
    return text.length <= ONE_TURN_BYTES ? atOnce(parsing) : await inSlices(parsing, timers);
  } catch (error) {
    // Embedding programs may submit what is beyond the bounds of a request.
    if (error instanceof JsonFaultError) return JSON.parse(text);
    throw error;
  }
}
