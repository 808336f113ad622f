/**
 * One follower of one job: a cursor and a sink. It reads from the brain's log only what the sink accepts and buffers
 * nothing while the sink is full. Where its cursor has fallen behind the brain's log, it reads the executor's own.
 *
 * F1  Events of one attempt reach the sink in order, each once.
 * F2  A new attempt is announced by `reset` when something of an earlier one was shown.
 * F3  The end comes last, and once.
 */
import type { ExecutionEvent, FollowEnd } from '../core/ports/backend.ts';
import { type ExecutionLog, NumberedEvent, type RelayedEvent } from './execution-log.ts';

export interface Sink {
  /** Takes all events. False means that the sink is full now; its owner calls `ready()` on the follower to go on. */
  write(events: readonly RelayedEvent[]): boolean;
  end(): void;
}

/** The attempt and number of the last event that a follower has received; both 0 before the first one. */
export interface Cursor {
  readonly attempt: number;
  readonly n: number;
}

/** Reads an attempt's events after `from` out of the executor's own log. */
export type ReadSource = (
  attempt: number,
  from: number,
  on: (event: ExecutionEvent) => void,
  signal: AbortSignal,
) => Promise<FollowEnd>;

export interface FollowerParts {
  readonly sink: Sink;
  readonly cursor: Cursor;
  /** The brain's log of an attempt. */
  readonly logOf: (attempt: number) => ExecutionLog | undefined;
  /** Reads events that the brain's log has dropped. */
  readonly source: ReadSource;
  readonly onClose: (follower: Follower) => void;
}

/** About how much one write to the sink holds. */
const WRITE_BYTES = 64 * 1024;

const isEnd = ({ event }: NumberedEvent): boolean => event === 'end' || event === 'error';

export class Follower {
  readonly #parts: FollowerParts;
  #attempt: number;
  #n: number;
  /** The sink has received events of the current attempt, so a gap or a new attempt needs a `reset`. */
  #shown: boolean;
  #full = false;
  /** Set while a piece of the executor's log is being read. */
  #catchingUp: AbortController | undefined;
  /** The attempt has ended and its executor's log was read to the end. */
  #readToEnd = false;
  /** The job's last event, written once everything before it was. */
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

  /** Sends an event of the brain itself; it has no id, so no cursor points to it. */
  sendUnnumbered(event: string, data: unknown): void {
    if (!this.#closed) this.#full = !this.#write([{ id: undefined, event, data: JSON.stringify(data) }]);
  }

  /** Follows this attempt from its first event on, unless it is the current one already. */
  switchTo(attempt: number): void {
    if (attempt === this.#attempt || this.#closed) return;
    this.#catchingUp?.abort();
    this.#catchingUp = undefined;
    if (this.#shown) this.sendUnnumbered('reset', { attempt });
    this.#attempt = attempt;
    this.#n = 0;
    this.#shown = false;
    this.#readToEnd = false;
  }

  /**
   * The job has ended: sends the remaining events of the current attempt, then `event`. With `stillRuns` the job has
   * ended for its callers only (a cancel) while the attempt goes on; its further events are not waited for.
   */
  finish(event: RelayedEvent, stillRuns = false): void {
    if (this.#end || this.#closed) return;
    this.#end = event;
    if (stillRuns) this.#readToEnd = true;
    this.pump();
  }

  /** The job has ended, and nothing of its attempts may be read any more: sends `event` alone. */
  endWith(event: RelayedEvent): void {
    if (this.#closed) return;
    this.#end = event;
    this.#finishNow();
  }

  /** Nothing of the attempts may be read any more: a follower that only has to catch up gets the end at once. */
  skipToEnd(): void {
    if (this.#end) this.endWith(this.#end);
  }

  /** The sink has room again. */
  ready(): void {
    this.#full = false;
    this.pump();
  }

  /** Writes to the sink until it is full or nothing is left. */
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
      this.#deliver(log.after(this.#n, WRITE_BYTES));
    }
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#catchingUp?.abort();
    this.#parts.onClose(this);
    this.#parts.sink.end();
  }

  #deliver(events: readonly NumberedEvent[]): void {
    this.#n = (events.at(-1) as NumberedEvent).n;
    // The executor's own end event is left out: the brain sends the end once it is durable.
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

  /** Reads one bounded piece of the executor's log; pump() reads the next once the sink has taken it. */
  #catchUp(): void {
    const abort = new AbortController();
    this.#catchingUp = abort;
    const piece: NumberedEvent[] = [];
    let bytes = 0;
    const attempt = this.#attempt;
    const collect = (event: ExecutionEvent): void => {
      if (abort.signal.aborted || event.n <= (piece.at(-1)?.n ?? this.#n)) return;
      const entry = new NumberedEvent(attempt, event);
      piece.push(entry);
      bytes += entry.estimatedBytes;
      // Reading stops when the piece is full, or when the brain's own log holds everything that follows.
      if (bytes >= WRITE_BYTES || this.#parts.logOf(attempt)?.reachesBackTo(event.n)) abort.abort();
    };
    const settle = (end: FollowEnd): void => {
      if (this.#catchingUp !== abort || this.#closed) return;
      this.#catchingUp = undefined;
      this.#readToEnd = end.is !== 'lost' && !abort.signal.aborted;
      const first = piece[0]?.n;
      if (first === undefined && end.is === 'lost') return this.#skipGap();
      if (first !== undefined && first > this.#n + 1) {
        // The executor has dropped events too: go on with the log that reaches back further.
        const log = this.#parts.logOf(attempt);
        if (log && log.firstKept <= first) return this.#skipGap();
        this.#announceGap();
      }
      if (first !== undefined) this.#deliver(piece);
      this.pump();
    };
    this.#parts.source(attempt, this.#n, collect, abort.signal).then(settle, () => settle({ is: 'lost' }));
  }

  /** The missing events are lost: announces the gap and goes on with the oldest event of the brain's log. */
  #skipGap(): void {
    const log = this.#parts.logOf(this.#attempt);
    this.#announceGap();
    if (!log) return this.#finishNow();
    this.#n = log.firstKept - 1;
    this.pump();
  }

  /** Events are missing between those sent and those to come: a `reset` makes the client discard its text. */
  #announceGap(): void {
    if (this.#shown) this.sendUnnumbered('reset', { attempt: this.#attempt });
    this.#shown = false;
  }
}
