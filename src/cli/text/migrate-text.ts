/** The output of a migration: its progress while it runs, and its report. */
import type { MigrationProgress, MigrationReport } from '../../stores/migration/migrate.ts';
import type { Terminal } from '../command.ts';

const PAUSE_MS = 1000;

/** Shows the progress: on a terminal as one line that is overwritten, else as a new line every second. */
export class ProgressLine {
  readonly #terminal: Terminal;
  readonly #now: () => number;
  #shownAt = Number.NEGATIVE_INFINITY;
  #shownStep = '';

  constructor(terminal: Terminal, now = () => performance.now()) {
    this.#terminal = terminal;
    this.#now = now;
  }

  readonly show = (progress: MigrationProgress): void => {
    const now = this.#now();
    const isDue = now - this.#shownAt >= (this.#terminal.showsStatus ? PAUSE_MS / 10 : PAUSE_MS);
    if (!isDue && progress.doing === this.#shownStep && progress.jobs < progress.of) return;
    this.#shownAt = now;
    this.#shownStep = progress.doing;
    const text = progressText(progress);
    if (this.#terminal.showsStatus) this.#terminal.status(text);
    else this.#terminal.complain(text);
  };

  clear(): void {
    this.#terminal.status();
  }
}

export const progressText = ({ doing, jobs, of }: MigrationProgress): string =>
  `${doing === 'copy' ? 'copied' : 'read back'} ${jobs} of ${of} jobs`;

export function reportText(report: MigrationReport): string {
  const { from, to, live, ended, attempts, bodies, bodyBytes, others, charges, sessions, keys } = report;
  const { seq, epoch, already, hash } = report;
  return [
    already ? `Everything in ${from} is already in ${to}; nothing was written.` : `Copied ${from} to ${to}.`,
    `${live} live and ${ended} ended jobs with ${attempts} attempts, ${bodies} bodies (${bodyBytes} bytes), ${others} other records, ${charges} charges, ${sessions} archived sessions, ${keys} keys of sessions`,
    `everything up to change ${seq}; the next brain starts with an epoch above ${epoch}`,
    `read back and compared, with equal hashes: ${hash}`,
  ].join('\n');
}
