/**
 * The second reading of a file of jobs: submits its lines.
 *
 * B1  A line is counted once, by its final answer. A line that the brain has no room for now has none: it is sent again
 *     in the next round, or left for the next run of the command.
 * B2  Every line has a job id that depends only on the batch and its number: sending it again is harmless.
 */
import type { LineAnswer, OrchdClient } from '../../client/client.ts';
import { pause } from '../../client/patience.ts';
import type { Line } from '../../wire/line-splitter.ts';
import { FaultList } from './fault-list.ts';
import { textMaker } from './job-text.ts';
import { checkLine, type JobDefaults, LineFault } from './line-check.ts';
import type { LineNames } from './line-names.ts';
import type { SourceFile } from './source-file.ts';

export interface SendOptions {
  readonly batch: string;
  readonly defaults: JobDefaults;
  readonly names: LineNames;
  /** Whether lines were found bad: each is checked again, and left out if it is bad. */
  readonly hasFaults: boolean;
  /** Goes on as room comes where the brain has none. */
  readonly isPatient: boolean;
  readonly signal: AbortSignal;
  readonly onReconnect: (error: Error) => void;
  readonly onProgress: (sent: Readonly<SendCounts>) => void;
  /** Called where it waits for room. */
  readonly onWait: (refusal: Refusal) => void;
}

export interface SendCounts {
  /** Lines given to the connection. */
  sent: number;
  submitted: number;
  /** Jobs that existed before. */
  there: number;
  refused: number;
  skipped: number;
}

export type Refusal = Extract<LineAnswer, { readonly error: unknown }>['error'];

interface JobText {
  readonly number: number;
  readonly text: string;
}

/** Statuses of an answer that means: not now. */
const NO_ROOM: readonly number[] = [429, 507];
/** Once the brain had no room, few lines are sent ahead of their answers: most would come back. */
const CAREFUL_LINES = 200;
/** Lines are given out in pieces of about this size. */
const PIECE_LINES = 100;
const PIECE_CHARS = 32 * 1024;
/** Lines with an answer that are kept before they are dropped together. */
const MAX_ANSWERED = 10_000;
const MIN_WAIT_MS = 100;
const MAX_WAIT_MS = 30_000;
const DEFAULT_WAIT_MS = 1000;

export class FileSender {
  readonly counts: SendCounts = { sent: 0, submitted: 0, there: 0, refused: 0, skipped: 0 };
  /** Lines that were refused for good. */
  readonly refusals = new FaultList();
  readonly skipped = new FaultList();
  readonly #client: OrchdClient;
  readonly #file: SourceFile;
  readonly #options: SendOptions;
  readonly #textOf: ReturnType<typeof textMaker>;
  /** Why there is no room; lines are not read any further in this round. */
  #noRoom: Refusal | undefined;
  /** Lines that are sent again in the next round. */
  #again: JobText[] = [];
  /** Lines up to this number may have been admitted over a connection that broke before their answers came. */
  #uncertain = 0;

  constructor(client: OrchdClient, file: SourceFile, options: SendOptions) {
    this.#client = client;
    this.#file = file;
    this.#options = options;
    this.#textOf = textMaker(options.batch, options.defaults);
  }

  /** Returns why it has stopped, if lines are left; also stops when the signal is aborted. Throws FileChanged. */
  async run(): Promise<Refusal | undefined> {
    const { isPatient, signal, onWait } = this.#options;
    const lines = this.#jobs();
    try {
      for (let round = 1; ; round++) {
        // In the order of the file: a line may wait for one before it.
        const again = this.#again.sort((a, b) => a.number - b.number);
        this.#again = [];
        this.#noRoom = undefined;
        await this.#round(again, lines, round > 1);
        const noRoom = this.#noRoom as Refusal | undefined;
        if (!noRoom || !isPatient || signal.aborted) return noRoom;
        onWait(noRoom);
        const waitMs = noRoom.retry_after_ms ?? DEFAULT_WAIT_MS;
        await pause(Math.min(Math.max(waitMs, MIN_WAIT_MS), MAX_WAIT_MS), signal);
      }
    } finally {
      await lines.return(undefined);
    }
  }

  async #round(
    again: readonly JobText[],
    lines: AsyncGenerator<readonly JobText[]>,
    isCareful: boolean,
  ): Promise<void> {
    const { batch, signal, onReconnect, onProgress } = this.#options;
    const given: JobText[] = [];
    let answered = 0;
    const answers = this.#client.submitLines(this.#source(again, lines, given), {
      batch,
      signal,
      ...(isCareful && { maxUnanswered: CAREFUL_LINES }),
      onReconnect: (error) => {
        this.#uncertain = Math.max(this.#uncertain, given.at(-1)?.number ?? 0);
        onReconnect(error);
      },
    });
    for await (const answer of answers) {
      const job = given[answered] as JobText;
      // The array is not shortened for each answer, and does not keep what is answered.
      given[answered++] = { number: job.number, text: '' };
      if (answered === MAX_ANSWERED) answered -= given.splice(0, answered).length;
      this.#take(job, answer);
      onProgress(this.counts);
    }
  }

  async *#source(
    again: readonly JobText[],
    lines: AsyncGenerator<readonly JobText[]>,
    given: JobText[],
  ): AsyncGenerator<readonly string[]> {
    for (let at = 0; at < again.length; at += PIECE_LINES) {
      if (this.#noRoom) {
        this.#again.push(...again.slice(at));
        return;
      }
      yield give(again.slice(at, at + PIECE_LINES), given);
    }
    while (!this.#noRoom) {
      const { value, done } = await lines.next();
      if (done) return;
      this.counts.sent += value.length;
      yield give(value, given);
    }
  }

  #take(job: JobText, answer: LineAnswer): void {
    const { counts } = this;
    if (!('error' in answer)) {
      const isOurs = answer.duplicate_of === undefined || this.#isUncertain(job.number);
      if (isOurs) counts.submitted++;
      else counts.there++;
      return;
    }
    if (this.#isNotNow(answer)) {
      this.#noRoom ??= answer.error;
      this.#again.push(job);
      return;
    }
    counts.refused++;
    this.refusals.add({ line: job.number, text: refusalText(answer.error) });
  }

  /** In a first run, a job that exists after a lost connection was admitted over that connection. */
  #isUncertain(number: number): boolean {
    return number <= this.#uncertain && this.counts.there === 0;
  }

  #isNotNow({ http_status: status, error }: LineAnswer & { readonly error: Refusal }): boolean {
    if (NO_ROOM.includes(status) && error.retriable) return true;
    // The line that it waits for may be one that there was no room for.
    return this.#noRoom !== undefined && error.reason === 'unknown_dependency';
  }

  /** The jobs of the file, with their ids, in small pieces. */
  async *#jobs(): AsyncGenerator<readonly JobText[]> {
    for await (const block of this.#file.read()) {
      let piece: JobText[] = [];
      let chars = 0;
      for (const line of block) {
        const job = this.#jobOf(line);
        if (!job) continue;
        piece.push(job);
        chars += job.text.length;
        if (piece.length < PIECE_LINES && chars < PIECE_CHARS) continue;
        yield piece;
        piece = [];
        chars = 0;
      }
      if (piece.length > 0) yield piece;
    }
  }

  /** Undefined for a line that is left out. */
  #jobOf(line: Line): JobText | undefined {
    const { batch, defaults, names, hasFaults } = this.#options;
    const id = this.#idOf(line.number);
    try {
      const known = hasFaults ? undefined : this.#textOf(line, id);
      if (known !== undefined) return { number: line.number, text: known };
      const checked = checkLine(line, defaults);
      const after = names.idsOf(checked, this.#idOf);
      const request = { ...checked.request, ...(after.length > 0 && { after }), job_id: id, batch };
      return { number: line.number, text: JSON.stringify(request) };
    } catch (error) {
      if (!(error instanceof LineFault)) throw error;
      names.skip(line.number);
      this.counts.skipped++;
      this.skipped.add({ line: line.number, text: error.message });
      return undefined;
    }
  }

  readonly #idOf = (line: number): string => `${this.#options.batch}.${line}`;
}

/** Remembers lines in the order in which they are given out. */
function give(jobs: readonly JobText[], given: JobText[]): readonly string[] {
  return jobs.map((job) => {
    given.push(job);
    return job.text;
  });
}

function refusalText({ code, message }: Refusal): string {
  if (code === 'JOB_CONFLICT')
    return 'the job exists with other content: the line, or an option of the command, was changed since it was submitted (JOB_CONFLICT)';
  return `${message} (${code})`;
}
