/** One line on standard error, written over and over, that says how a job gets on until its first words come. */
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

  /** Does nothing where nobody looks. */
  start(): void {
    if (!this.#out.isTTY || this.#timer) return;
    this.#timer = setInterval(() => void this.#look(), POLL_MS).unref();
    void this.#look();
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    if (this.#shown) this.#out.write(CLEAR_LINE);
    this.#shown = false;
  }

  async #look(): Promise<void> {
    try {
      const job = await this.#client.get(this.#jobId);
      if (!this.#timer || isTerminal(job.state)) return;
      this.#out.write(CLEAR_LINE + fitting(progressText(job, Date.now()), this.#out.columns));
      this.#shown = true;
    } catch {
      // The stream of events says what is wrong with the connection.
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

/** A line that wraps cannot be written over. */
export function fitting(text: string, columns: number | undefined): string {
  // Some terminals do not say how wide they are.
  const room = (columns || 80) - 1;
  return text.length <= room ? text : `${text.slice(0, Math.max(0, room - 1))}…`;
}
