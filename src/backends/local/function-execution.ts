/** One call of a function: its numbered events, of which the last MAX_EVENTS are kept, and how it ended. */
import type { ExecutionEnd, ExecutionEvent, ExecutionStatus } from '../../core/ports/backend.ts';
import type { TokenEvent } from '../../model/worker-wire.ts';

/** Maximum number of events kept for late readers; a reader that is further behind sees a gap in the numbers. */
const MAX_EVENTS = 1000;

export class FunctionExecution {
  readonly hash: string | undefined;
  #abort: AbortController | undefined;
  #events: ExecutionEvent[] = [];
  #count = 0;
  #tokens = 0;
  #end: ExecutionEnd | undefined;
  readonly #readers = new Set<(event: ExecutionEvent) => void>();
  readonly #ended: Promise<ExecutionEnd>;
  #resolve!: (end: ExecutionEnd) => void;

  /** `hash`: the hash of the job's body, where its id was chosen by a caller. */
  constructor(hash: string | undefined) {
    this.hash = hash;
    this.#ended = new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }

  get signal(): AbortSignal {
    this.#abort ??= new AbortController();
    return this.#abort.signal;
  }

  abort(): void {
    this.#abort ??= new AbortController();
    this.#abort.abort();
  }

  status(): ExecutionEnd | { readonly is: 'running' } {
    return this.#end ?? { is: 'running' };
  }

  /** The status together with the hash of the body. */
  knownStatus(): ExecutionStatus {
    const status = this.status();
    return this.hash === undefined ? status : { ...status, hash: this.hash };
  }

  emit(type: ExecutionEvent['type'], data: unknown): void {
    const event = { n: ++this.#count, type, data };
    if (this.#events.push(event) > MAX_EVENTS) this.#events = this.#events.slice(MAX_EVENTS / 2);
    for (const reader of this.#readers) reader(event);
  }

  token(text: string, delta?: TokenEvent['delta']): void {
    if (this.#end) return;
    // Throws here, in the function, where `delta` is no JSON: followers serialise it later.
    if (delta !== undefined) JSON.stringify(delta);
    const i = this.#tokens++;
    this.emit('token', delta === undefined ? { t: text, i } : { t: text, i, delta });
  }

  end(end: ExecutionEnd): void {
    this.#end = end;
    this.#resolve(end);
  }

  /** Passes on the events after `from` and returns the end; undefined when the signal stopped the reader first. */
  async follow(
    from: number,
    on: (event: ExecutionEvent) => void,
    signal?: AbortSignal,
  ): Promise<ExecutionEnd | undefined> {
    for (const event of this.#events) if (event.n > from && !signal?.aborted) on(event);
    if (signal?.aborted) return undefined;
    if (this.#end) return this.#end;
    this.#readers.add(on);
    try {
      return await (signal ? Promise.race([this.#ended, aborted(signal)]) : this.#ended);
    } finally {
      this.#readers.delete(on);
    }
  }
}

function aborted(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    signal.addEventListener('abort', () => resolve(undefined), { once: true });
  });
}
