/** Submits any number of jobs, one a line, and yields an answer for each. */
import type { BulkAnswer } from '../model/http/jobs.ts';
import type { SubmitRequest } from '../model/submit.ts';
import { ClientError } from './client-error.ts';
import { LineFeed } from './line-feed.ts';
import { Patience, type PatienceOptions } from './patience.ts';
import type { Requests, StreamInit } from './requests.ts';
import { textLines } from './text-lines.ts';

/**
 * A job, or the JSON text of one. A text is sent as it is: it must have no line feed, and a `job_id`, without which it could
 * be admitted twice after a lost connection. A job that has no `job_id` is given one.
 */
export type JobLine = SubmitRequest | string;
/** A source may give several jobs at once, which is faster. */
export type JobSource = AsyncIterable<JobLine | readonly JobLine[]> | Iterable<JobLine | readonly JobLine[]>;

/** `line` is the number of the job in its source, from 1. */
export type LineAnswer = BulkAnswer & { readonly line: number };

export interface SubmitLinesOptions extends PatienceOptions {
  /** The batch of the jobs that name none. */
  readonly batch?: string | undefined;
  /** The most lines that are sent ahead of their answers; 8192 by default. */
  readonly maxUnanswered?: number | undefined;
}

/** The answer of a node that could not serve the line now: it is sent again. */
const UNAVAILABLE = 503;

/** Browsers cannot read an answer while they still send a request: they get one request per piece. */
const isBrowser = typeof navigator !== 'undefined' && /^Mozilla\//.test(navigator.userAgent ?? '');

export async function* submitLines(
  requests: Requests,
  source: JobSource,
  options: SubmitLinesOptions,
): AsyncGenerator<LineAnswer> {
  const patience = new Patience(options);
  const feed = new LineFeed(textsOf(source), options.maxUnanswered);
  try {
    while (!feed.isDone) {
      try {
        for await (const answers of exchange(requests, feed, options)) {
          patience.succeeded();
          yield* answers;
        }
      } catch (error) {
        if (feed.failure) throw feed.failure.error;
        await patience.failed(error instanceof ClientError ? error : requests.broken(error as Error));
      }
      if (feed.failure) throw feed.failure.error;
      if (options.signal?.aborted) return;
    }
  } finally {
    await feed.end();
  }
}

async function* textsOf(source: JobSource): AsyncGenerator<readonly string[]> {
  for await (const given of source) {
    const jobs = Array.isArray(given) ? (given as readonly JobLine[]) : [given as JobLine];
    yield jobs.map(textOf);
  }
}

const textOf = (job: JobLine): string =>
  typeof job === 'string' ? job : JSON.stringify({ job_id: randomId(), ...job });

/** crypto.randomUUID() is missing in pages that were loaded over plain HTTP. */
export const randomId = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join(
    '',
  );

/** One request: sends what is not answered yet, and yields the answers. Throws if it breaks off. */
async function* exchange(
  requests: Requests,
  feed: LineFeed,
  { batch, signal }: SubmitLinesOptions,
): AsyncGenerator<readonly LineAnswer[]> {
  const over = new AbortController();
  const abort = (): void => over.abort();
  signal?.addEventListener('abort', abort);
  feed.rewind();
  try {
    const body = await bodyOf(feed, over.signal);
    if (body === undefined) return;
    const query = batch === undefined ? '' : `?batch=${encodeURIComponent(batch)}`;
    const response = await requests.send(`/v2/tasks${query}`, {
      method: 'POST',
      headers: { 'content-type': 'application/x-ndjson' },
      ...body,
      signal: over.signal,
    });
    for await (const texts of textLines(response.body as unknown as AsyncIterable<Uint8Array>)) {
      const { answers, failure } = answersIn(texts, feed);
      yield answers;
      if (failure) throw failure;
    }
    if (feed.isBehind && !over.signal.aborted) throw new Error('the answer ended too early');
  } finally {
    signal?.removeEventListener('abort', abort);
    abort();
  }
}

interface Answers {
  readonly answers: readonly LineAnswer[];
  /** Why the lines after these have no answer. */
  readonly failure?: Error;
}

function answersIn(texts: readonly string[], feed: LineFeed): Answers {
  const answers: LineAnswer[] = [];
  for (const text of texts) {
    const answer = JSON.parse(text) as BulkAnswer & { line: number };
    if (answer.http_status === UNAVAILABLE) return { answers, failure: unavailable(answer) };
    const number = feed.answer();
    if (number === undefined) return { answers, failure: new Error('there are more answers than lines') };
    answer.line = number;
    answers.push(answer);
  }
  return { answers };
}

function unavailable(answer: LineAnswer): ClientError {
  return new ClientError(UNAVAILABLE, 'error' in answer ? answer.error : { code: 'UNREACHABLE' });
}

type Body = Pick<StreamInit, 'body' | 'duplex'>;

async function bodyOf(feed: LineFeed, isOver: AbortSignal): Promise<Body | undefined> {
  if (isBrowser) {
    const body = await feed.piece(isOver);
    return body === undefined ? undefined : { body };
  }
  const encoder = new TextEncoder();
  const first = await feed.piece(isOver);
  if (first === undefined) return undefined;
  let given = false;
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const text = given ? await feed.piece(isOver) : first;
        given = true;
        if (text === undefined) controller.close();
        else controller.enqueue(encoder.encode(text));
      },
    },
    { highWaterMark: 0 },
  );
  return { body, duplex: 'half' };
}
