/** Shows the status of a brain again and again, also while the brain restarts. */
import { ClientError } from '../client/client.ts';
import type { Status } from '../model/http/status.ts';
import type { Terminal } from './command.ts';
import { changeKey, EndRate, type Snapshot } from './snapshot.ts';
import { durationText } from './text/duration.ts';
import { oneLine } from './text/screen.ts';
import { statusText } from './text/status-text.ts';

const REFRESH_MS = 1000;

export interface WatchOptions {
  readonly first: Snapshot;
  read(): Promise<Snapshot>;
  readonly terminal: Terminal;
  readonly url: string;
  readonly asJson: boolean;
  /** Resolves after this many milliseconds, or as soon as the signal is aborted. */
  readonly pause?: (ms: number, signal: AbortSignal) => Promise<void>;
}

/** Returns when the signal is aborted; throws an error that would come again, such as a refused token. */
export async function watchStatus(options: WatchOptions, signal: AbortSignal): Promise<void> {
  const { terminal, read, pause = wait } = options;
  const view = new StatusView(options);
  view.show(options.first);
  try {
    for (;;) {
      await pause(REFRESH_MS, signal);
      if (signal.aborted) return;
      try {
        view.show(await read());
      } catch (error) {
        if (!(error instanceof ClientError) || !error.retriable) throw error;
        view.lost(error);
      }
    }
  } finally {
    terminal.redraw();
  }
}

/** On a terminal the last text is drawn over; elsewhere a text is printed if something has changed. */
class StatusView {
  readonly #options: WatchOptions;
  readonly #rate = new EndRate();
  #key = '';
  #text = '';
  #epoch: number | null | undefined;
  #isLost = false;

  constructor(options: WatchOptions) {
    this.#options = options;
  }

  show(snapshot: Snapshot): void {
    const { terminal, url, asJson } = this.#options;
    const endsPerSec = this.#rate.add(snapshot.status);
    this.#returned(snapshot.status);
    const key = changeKey(snapshot);
    const isChange = key !== this.#key;
    this.#key = key;
    if (asJson) {
      if (isChange) terminal.printData(JSON.stringify(snapshot));
      return;
    }
    this.#text = statusText(snapshot, { terminal, url, endsPerSec });
    if (terminal.isTerminal) terminal.redraw(this.#text);
    else if (isChange) terminal.print(`${this.#text}\n`);
  }

  lost(error: ClientError): void {
    const { terminal, asJson } = this.#options;
    const sentence = `${oneLine(error.message)}; trying again`;
    if (terminal.isTerminal && !asJson) terminal.redraw(`${sentence}\n\n${this.#text}`);
    else if (!this.#isLost) terminal.complain(`orchd: ${sentence}`);
    this.#isLost = true;
  }

  /** Says that the brain is back, or that it has restarted between two requests: every brain has an epoch of its own. */
  #returned({ leader: { epoch }, uptime_ms }: Status): void {
    const { terminal } = this.#options;
    const hasRestarted = this.#epoch !== undefined && epoch !== this.#epoch;
    this.#epoch = epoch;
    if (!this.#isLost && !hasRestarted) return;
    const how = hasRestarted ? `it started ${durationText(uptime_ms)} ago` : 'it did not restart';
    // The line stays above what is drawn from now on.
    terminal.redraw();
    terminal.complain(`orchd: the brain answers again; ${how}`);
    this.#isLost = false;
  }
}

function wait(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, ms);
    signal.addEventListener('abort', done, { once: true });
    function done(): void {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    }
    if (signal.aborted) done();
  });
}
