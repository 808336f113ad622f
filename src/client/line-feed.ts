/**
 * The lines of one call of submitLines(): takes them from their source, keeps those that are not answered yet, and gives
 * them out again after a broken connection.
 *
 * F1  At most MAX_UNANSWERED_LINES and about MAX_UNANSWERED_BYTES of lines are kept, whatever the source holds.
 * F2  Lines are given out in their order, and answered in that order.
 */

const MAX_UNANSWERED_LINES = 8192;
/** Lines with an answer that are kept until they are dropped together. */
const MAX_ANSWERED_LINES = 4096;
const MAX_UNANSWERED_CHARS = 4 * 2 ** 20;
/** Lines are sent in pieces of about this size. */
const PIECE_CHARS = 64 * 1024;
/** A source that takes longer than this for its next line does not keep the lines before it from being sent. */
const SLOW_SOURCE_MS = 2;

export class LineFeed {
  readonly #source: AsyncIterator<readonly string[]>;
  /** What the source has thrown; it has no more lines then. */
  failure: { readonly error: unknown } | undefined;
  readonly #maxUnanswered: number;
  /** Texts of lines: those before #answered have an answer, those before #sent were given out since rewind(). */
  #lines: string[] = [];
  #answered = 0;
  #sent = 0;
  #chars = 0;
  /** The number of lines that have an answer. */
  #done = 0;
  #isSourceEnded = false;
  #next: Promise<boolean> | undefined;
  #wake: () => void = () => undefined;

  constructor(source: AsyncIterator<readonly string[]>, maxUnanswered = MAX_UNANSWERED_LINES) {
    this.#source = source;
    this.#maxUnanswered = maxUnanswered;
  }

  /** Every line of the source is answered. */
  get isDone(): boolean {
    return this.#isSourceEnded && this.#waiting === 0;
  }

  /** Lines were given out that have no answer. */
  get isBehind(): boolean {
    return this.#answered < this.#sent;
  }

  /** All lines without an answer are given out again, first of all. */
  rewind(): void {
    this.#lines = this.#lines.slice(this.#answered);
    this.#answered = 0;
    this.#sent = 0;
  }

  /** The text of the next lines, each with a line feed; undefined at the end, and once `isOver` is aborted. */
  async piece(isOver: AbortSignal): Promise<string | undefined> {
    let text = '';
    let slow: Promise<false> | undefined;
    while (text.length < PIECE_CHARS) {
      const known = this.#lines[this.#sent];
      if (known !== undefined) {
        text += `${known}\n`;
        this.#sent++;
        continue;
      }
      if (this.#isFull || this.#isSourceEnded) {
        if (text !== '' || this.#isSourceEnded) break;
        await this.#room(isOver);
        if (isOver.aborted) return undefined;
        continue;
      }
      // One timer for all lines of a piece.
      slow ??= text === '' ? undefined : new Promise((resolve) => setTimeout(resolve, SLOW_SOURCE_MS, false));
      const isTaken = await this.#take(slow);
      if (isOver.aborted) return undefined;
      if (!isTaken && (text !== '' || this.#isSourceEnded)) break;
    }
    return text === '' || isOver.aborted ? undefined : text;
  }

  /** The number of the line that an answer is for, from 1; undefined if there was none to answer. */
  answer(): number | undefined {
    if (this.#answered >= this.#sent) return undefined;
    this.#chars -= (this.#lines[this.#answered++] as string).length;
    if (this.#answered >= MAX_ANSWERED_LINES) {
      this.#lines = this.#lines.slice(this.#answered);
      this.#sent -= this.#answered;
      this.#answered = 0;
    }
    this.#wake();
    return ++this.#done;
  }

  /** The source is not read any further. */
  async end(): Promise<void> {
    this.#isSourceEnded = true;
    this.#wake();
    await this.#source.return?.();
  }

  get #waiting(): number {
    return this.#lines.length - this.#answered;
  }

  get #isFull(): boolean {
    return this.#waiting > 0 && (this.#waiting >= this.#maxUnanswered || this.#chars >= MAX_UNANSWERED_CHARS);
  }

  /** Takes a line from the source; false if it has no more, or none until `slow` resolves. */
  async #take(slow: Promise<false> | undefined): Promise<boolean> {
    // A line that an earlier connection was waiting for is kept for the next one.
    this.#next ??= this.#source.next().then(this.#keep, this.#fail);
    return slow === undefined ? this.#next : Promise.race([this.#next, slow]);
  }

  readonly #keep = (step: IteratorResult<readonly string[]>): boolean => {
    this.#next = undefined;
    if (step.done) {
      this.#isSourceEnded = true;
      return false;
    }
    for (const line of step.value) {
      this.#lines.push(line);
      this.#chars += line.length;
    }
    return true;
  };

  readonly #fail = (error: unknown): boolean => {
    this.#next = undefined;
    this.#isSourceEnded = true;
    this.failure = { error };
    return false;
  };

  #room(isOver: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
      isOver.addEventListener('abort', () => resolve(), { once: true });
    });
  }
}
