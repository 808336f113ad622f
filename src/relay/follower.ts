/**
 * One reader of one job: a cursor and a sink. It takes from the log what its sink can hold and no more; while
 * the sink is full it holds nothing, and when it comes back behind the log it reads the executor's own.
 *
 * F1  Events of one attempt reach the sink in order, each once.
 * F2  A new attempt is announced by `reset` when something of an earlier one was shown.
 * F3  The end comes last, and once.
 */
import type { ExecutionEvent, FollowEnd } from '../core/ports/backend.ts';
import { type ExecutionLog, LoggedEvent, type RelayedEvent } from './execution-log.ts';

export interface Sink {
  /** False when it is full: `ready()` on the follower says when it is not. */
  write(events: readonly RelayedEvent[]): boolean;
  end(): void;
}

/** Where a follower stands: the attempt and the number of the last event it has; zeros at the beginning. */
export interface Cursor {
  readonly attempt: number;
  readonly n: number;
}

export type ReadSource = (
  attempt: number,
  from: number,
  on: (event: ExecutionEvent) => void,
  signal: AbortSignal,
) => Promise<FollowEnd>;

export interface FollowerParts {
  readonly sink: Sink;
  readonly cursor: Cursor;
  readonly logOf: (attempt: number) => ExecutionLog | undefined;
  /** The executor's own log, for what the brain has forgotten. */
  readonly source: ReadSource;
  readonly onClose: (follower: Follower) => void;
}

const PUMP_BYTES = 64 * 1024;

const isEnd = ({ event }: LoggedEvent): boolean => event === 'end' || event === 'error';

export class Follower {
  readonly #parts: FollowerParts;
  #attempt: number;
  #n: number;
  #shown: boolean;
  #full = false;
  #catchingUp: AbortController | undefined;
  /** The executor has handed on all that it has of this attempt, and it has ended. */
  #readToEnd = false;
  #end: RelayedEvent | undefined;
  #closed = false;

  constructor(parts: FollowerParts) {
    this.#parts = parts;
    this.#attempt = parts.cursor.attempt;
    this.#n = parts.cursor.n;
    this.#shown = parts.cursor.n > 0;
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** Says something of the brain's own, which has no number. */
  say(event: string, data: unknown): void {
    if (!this.#closed) this.#full = !this.#write([{ id: undefined, event, data: JSON.stringify(data) }]);
  }

  /** The attempt that counts now. */
  enter(attempt: number): void {
    if (attempt === this.#attempt || this.#closed) return;
    this.#catchingUp?.abort();
    this.#catchingUp = undefined;
    if (this.#shown) this.say('reset', { attempt });
    this.#attempt = attempt;
    this.#n = 0;
    this.#shown = false;
    this.#readToEnd = false;
  }

  /**
   * The job has ended with the attempt that counts now; what that said comes first. Where it still runs, ended for
   * its callers only, nobody waits for what it may yet say.
   */
  finish(event: RelayedEvent, stillRuns = false): void {
    if (this.#end || this.#closed) return;
    this.#end = event;
    if (stillRuns) this.#readToEnd = true;
    this.pump();
  }

  ready(): void {
    this.#full = false;
    this.pump();
  }

  pump(): void {
    while (!this.#closed && !this.#full && !this.#catchingUp) {
      const log = this.#parts.logOf(this.#attempt);
      if (!log?.reachesBackTo(this.#n)) {
        if (this.#readToEnd || this.#attempt === 0) this.#finishNow();
        else if (log || this.#end) this.#catchUp();
        return;
      }
      if (log.last <= this.#n) {
        if (this.#end) this.#finishNow();
        return;
      }
      this.#pass(log.after(this.#n, PUMP_BYTES));
    }
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#catchingUp?.abort();
    this.#parts.onClose(this);
    this.#parts.sink.end();
  }

  #pass(events: readonly LoggedEvent[]): void {
    this.#n = (events.at(-1) as LoggedEvent).n;
    // The executor's own end is said by the brain, once it is durable.
    const shown = events.some(isEnd) ? events.filter((event) => !isEnd(event)) : events;
    if (shown.length > 0) {
      this.#shown = true;
      this.#full = !this.#write(shown);
    }
  }

  #write(events: readonly RelayedEvent[]): boolean {
    return this.#parts.sink.write(events);
  }

  #finishNow(): void {
    if (!this.#end) return;
    this.#write([this.#end]);
    this.close();
  }

  /** Reads a bounded piece of the executor's log; more when the sink has taken it. */
  #catchUp(): void {
    const abort = new AbortController();
    this.#catchingUp = abort;
    const piece: LoggedEvent[] = [];
    let bytes = 0;
    const attempt = this.#attempt;
    const hear = (event: ExecutionEvent): void => {
      if (abort.signal.aborted || event.n <= (piece.at(-1)?.n ?? this.#n)) return;
      const entry = new LoggedEvent(attempt, event);
      piece.push(entry);
      bytes += entry.weight;
      // Enough for the sink, or as far as the brain's own log reaches back: from there on that one is read.
      if (bytes >= PUMP_BYTES || this.#parts.logOf(attempt)?.reachesBackTo(event.n)) abort.abort();
    };
    const settle = (end: FollowEnd): void => {
      if (this.#catchingUp !== abort || this.#closed) return;
      this.#catchingUp = undefined;
      this.#readToEnd = end.is === 'ended' && !abort.signal.aborted;
      const first = piece[0]?.n;
      if (first === undefined && end.is === 'lost') return this.#skip();
      if (first !== undefined && first > this.#n + 1) {
        // The executor has forgotten some of it too: whichever log reaches back further is the better one.
        const log = this.#parts.logOf(attempt);
        if (log && log.firstKept <= first) return this.#skip();
        this.#tellGap();
      }
      if (first !== undefined) this.#pass(piece);
      this.pump();
    };
    this.#parts.source(attempt, this.#n, hear, abort.signal).then(settle, () => settle({ is: 'lost' }));
  }

  /** What is missing cannot be had any more: say so, and go on with what there is. */
  #skip(): void {
    const log = this.#parts.logOf(this.#attempt);
    this.#tellGap();
    if (!log) return this.#finishNow();
    this.#n = log.firstKept - 1;
    this.pump();
  }

  /** What was shown does not join what comes: the reader starts afresh. */
  #tellGap(): void {
    if (this.#shown) this.say('reset', { attempt: this.#attempt });
    this.#shown = false;
  }
}
