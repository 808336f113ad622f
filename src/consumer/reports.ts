/** Sends events and results until the brain has them. */
import type { Env } from '../kit/env/env.ts';
import { pause } from '../kit/pause.ts';
import type { ConsumerEvents, EventsTaken, ResultsRecorded } from '../model/http/consumers.ts';
import { type ConsumerApi, isFinal, isGone } from './api.ts';
import type { Reported } from './held-job.ts';
import { Pauses } from './pauses.ts';
import type { Work } from './work.ts';

const MAX_BATCH = 200;
const BATCH_BYTES = 1024 * 1024;
const RESULTS_TIMEOUT_MS = 60_000;
const MAX_MESSAGE_CHARS = 2000;

export interface ReportsParts {
  readonly env: Pick<Env, 'timers' | 'random'>;
  readonly api: ConsumerApi;
  readonly work: Work;
  readonly path: (rest: string) => string;
  readonly onGone: (error: unknown) => void;
  readonly onProblem: (message: string) => void;
  readonly onSettled: (token: string) => void;
}

export class Reports {
  readonly #parts: ReportsParts;

  constructor(parts: ReportsParts) {
    this.#parts = parts;
  }

  /** Reports until the signal is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    const { work, env, onProblem } = this.#parts;
    const pauses = new Pauses(env.random);
    signal.addEventListener('abort', () => work.news.tell());
    while (!signal.aborted) {
      await work.news.until(() => this.#hasNews || signal.aborted);
      if (signal.aborted) return;
      const { registration } = work;
      try {
        await this.#report();
        pauses.reset();
      } catch (error) {
        if (isGone(error)) {
          if (work.registration === registration) this.#parts.onGone(error);
          continue;
        }
        onProblem(`a report failed: ${error instanceof Error ? error.message : error}`);
        await pause(env.timers, pauses.next(), signal);
      }
    }
  }

  get #hasNews(): boolean {
    const { registration, held } = this.#parts.work;
    return registration !== undefined && [...held.values()].some((job) => job.result || job.hasUnsent);
  }

  /** The events first: with the result of an attempt, nothing is passed on any more. */
  async #report(): Promise<void> {
    const held = [...this.#parts.work.held.values()];
    const events = batchOf(held.flatMap((job) => job.unsent()));
    const results = batchOf(held.flatMap(({ result }) => result ?? []));
    if (events.taken.length > 0) await this.#sendEvents(events.taken);
    if (events.isWhole && results.taken.length > 0) await this.#sendResults(results.taken);
  }

  async #sendEvents(events: ConsumerEvents['events']): Promise<void> {
    const { api, work, path, onProblem } = this.#parts;
    const { lost } = await api
      .call<EventsTaken>('POST', path('/events'), { body: { events } })
      .catch((error: unknown) => {
        if (!isFinal(error) || isGone(error)) throw error;
        onProblem(`events were refused: ${error}`);
        return { lost: [] };
      });
    for (const { token, n } of events) work.held.get(token)?.sent(n);
    for (const token of lost) work.lose(token);
  }

  async #sendResults(results: readonly Reported[]): Promise<void> {
    const { api, path } = this.#parts;
    try {
      const request = { body: { results }, timeoutMs: RESULTS_TIMEOUT_MS };
      const answer = await api.call<ResultsRecorded>('POST', path('/results'), request);
      for (const each of answer.results) this.#answered(each);
      const again = answer.results.find(({ error }) => error?.['retriable'] === true);
      if (again) throw new Error(`the result of ${again.token} was not taken: ${again.error?.['message']}`);
    } catch (error) {
      if (!isFinal(error) || isGone(error)) throw error;
      const [only] = results;
      if (results.length > 1) for (const result of results) await this.#sendResults([result]);
      else if (only) this.#replace(only, error);
    }
  }

  #answered({ token, error }: ResultsRecorded['results'][number]): void {
    const { work, onProblem, onSettled } = this.#parts;
    if (error?.['retriable'] === true) return;
    if (error) onProblem(`the result of ${token} is not wanted: ${error['code']}`);
    work.drop(token);
    onSettled(token);
  }

  /** A result that the brain refuses, because it is too large, say, becomes a failure that says so. */
  #replace({ token, ...result }: Reported, error: unknown): void {
    const { work, onSettled } = this.#parts;
    const job = work.held.get(token);
    if (job && 'ok' in result && result.ok) {
      const message = `the result was refused: ${error}`.slice(0, MAX_MESSAGE_CHARS);
      job.result = { token, ok: false, error: { message } };
      return;
    }
    work.drop(token);
    onSettled(token);
  }
}

/** As many as go into one request, the first always; and whether that is all of them. */
function batchOf<T>(entries: readonly T[]): { readonly taken: T[]; readonly isWhole: boolean } {
  const taken: T[] = [];
  let bytes = 0;
  for (const entry of entries.slice(0, MAX_BATCH)) {
    bytes += JSON.stringify(entry).length;
    if (taken.length > 0 && bytes > BATCH_BYTES) break;
    taken.push(entry);
  }
  return { taken, isWhole: taken.length === entries.length };
}
