/** What a move says: while it runs, and at its end. */
import type { MigrationProgress, MigrationReport } from '../../stores/migration/migrate.ts';
import type { Terminal } from '../command.ts';
import { fitting } from './progress.ts';

const CLEAR_LINE = '\r\u001b[2K';
const PAUSE_MS = 1000;

/** A line that is written over where a person looks; else one now and then. */
export class MoveLine {
  readonly #terminal: Terminal;
  readonly #out: NodeJS.WriteStream;
  readonly #now: () => number;
  #saidAt = Number.NEGATIVE_INFINITY;
  #saidDoing = '';

  constructor(terminal: Terminal, out: NodeJS.WriteStream = process.stderr, now = () => performance.now()) {
    this.#terminal = terminal;
    this.#out = out;
    this.#now = now;
  }

  readonly show = (progress: MigrationProgress): void => {
    const now = this.#now();
    const isDue = now - this.#saidAt >= (this.#out.isTTY ? PAUSE_MS / 10 : PAUSE_MS);
    if (!isDue && progress.doing === this.#saidDoing && progress.jobs < progress.of) return;
    this.#saidAt = now;
    this.#saidDoing = progress.doing;
    const text = progressText(progress);
    if (this.#out.isTTY) this.#out.write(CLEAR_LINE + fitting(text, this.#out.columns));
    else this.#terminal.complain(text);
  };

  clear(): void {
    if (this.#out.isTTY) this.#out.write(CLEAR_LINE);
  }
}

export const progressText = ({ doing, jobs, of }: MigrationProgress): string =>
  `${doing === 'copy' ? 'copied' : 'read back'} ${jobs} of ${of} jobs`;

export function reportText(report: MigrationReport): string {
  const { from, to, live, ended, attempts, bodies, bodyBytes, others, seq, epoch, already, hash } = report;
  return [
    already ? `All of ${from} is in ${to} already; nothing was written.` : `Moved ${from} to ${to}.`,
    `${live} live and ${ended} ended jobs with ${attempts} attempts, ${bodies} bodies (${bodyBytes} bytes), ${others} other records`,
    `everything to change ${seq}; the next brain leads with an epoch above ${epoch}`,
    `read back and found equal: ${hash}`,
  ].join('\n');
}
