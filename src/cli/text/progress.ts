/** A line on standard error, overwritten every second, with the state of a job until its answer begins. */
import type { OrchdClient } from '../../client/client.ts';
import type { JobView } from '../../model/http/jobs.ts';
import { isTerminal } from '../../model/states.ts';
import { durationText } from './duration.ts';
import { backendOf, placeText } from './job-text.ts';
import { oneLine } from './screen.ts';

const POLL_MS = 1000;
const CLEAR_LINE = '\r\u001b[2K';

export class Progress {
  readonly #client: OrchdClient;
  readonly #jobId: string;
  readonly #out: NodeJS.WriteStream;
  #timer: NodeJS.Timeout | undefined;
  #shown = false;

  constructor(client: OrchdClient, jobId: string, out: NodeJS.WriteStream = process.stderr) {
    this.#client = client;
    this.#jobId = jobId;
    this.#out = out;
  }

  /** Does nothing if standard error is not a terminal. */
  start(): void {
    if (!this.#out.isTTY || this.#timer) return;
    this.#timer = setInterval(() => void this.#refresh(), POLL_MS).unref();
    void this.#refresh();
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    if (this.#shown) this.#out.write(CLEAR_LINE);
    this.#shown = false;
  }

  async #refresh(): Promise<void> {
    try {
      const job = await this.#client.get(this.#jobId);
      if (!this.#timer || isTerminal(job.state)) return;
      this.#out.write(CLEAR_LINE + fitting(progressText(job, Date.now()), this.#out.columns));
      this.#shown = true;
    } catch {
      // The stream of events reports connection errors.
    }
  }
}

export function progressText(job: JobView, now: number): string {
  const place = placeText(job);
  if (job.state === 'queued') {
    const why = job.waiting ? oneLine(job.waiting.text) : '';
    return ['queued', place, why].filter(Boolean).join(', ');
  }
  if (job.state !== 'running')
    return [job.state, job.waiting && oneLine(job.waiting.text)].filter(Boolean).join(', ');
  const since = job.started_at === undefined ? '' : ` for ${durationText(now - job.started_at)}`;
  return `running on ${backendOf(job) ?? '?'}${since}`;
}

/** Cuts a line to the width of the terminal: one that wraps could not be overwritten. */
export function fitting(text: string, columns: number | undefined): string {
  // Some terminals do not report their width.
  const width = (columns || 80) - 1;
  return text.length <= width ? text : `${text.slice(0, Math.max(0, width - 1))}…`;
}
