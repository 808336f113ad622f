/** A line on standard error, overwritten every second, with the state of a job until its answer begins. */
import type { OrchdClient } from '../../client/client.ts';
import type { JobView } from '../../model/http/jobs.ts';
import { isTerminal } from '../../model/states.ts';
import type { Terminal } from '../command.ts';
import { durationText } from './duration.ts';
import { backendOf, placeAfter, placeText } from './job-text.ts';
import { oneLine } from './screen.ts';

const POLL_MS = 1000;

export class Progress {
  readonly #client: OrchdClient;
  readonly #jobId: string;
  readonly #terminal: Terminal;
  #timer: NodeJS.Timeout | undefined;
  #shown = false;

  constructor(client: OrchdClient, jobId: string, terminal: Terminal) {
    this.#client = client;
    this.#jobId = jobId;
    this.#terminal = terminal;
  }

  /** Does nothing if standard error is not a terminal. */
  start(): void {
    if (!this.#terminal.showsStatus || this.#timer) return;
    this.#timer = setInterval(() => void this.#refresh(), POLL_MS).unref();
    void this.#refresh();
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    if (this.#shown) this.#terminal.status();
    this.#shown = false;
  }

  async #refresh(): Promise<void> {
    try {
      const job = await this.#client.get(this.#jobId);
      if (!this.#timer || isTerminal(job.state)) return;
      this.#terminal.status(progressText(job, Date.now()));
      this.#shown = true;
    } catch {
      // The stream of events reports connection errors.
    }
  }
}

export function progressText(job: JobView, now: number): string {
  if (job.state === 'queued') {
    // The reason says how many jobs go first.
    const place = job.waiting ? [oneLine(job.waiting.text), placeAfter(job)] : [placeText(job)];
    return ['queued', ...place].filter(Boolean).join(', ');
  }
  if (job.state !== 'running')
    return [job.state, job.waiting && oneLine(job.waiting.text)].filter(Boolean).join(', ');
  const since = job.started_at === undefined ? '' : ` for ${durationText(now - job.started_at)}`;
  return `running on ${backendOf(job) ?? '?'}${since}`;
}
