/** The traces of jobs below others, which are the same for all jobs below one: those of busy runs are kept. */
import { type AskRecord, uidOf } from '../model/records.ts';
import { type Trace, traceBelow } from '../model/trace.ts';

const MAX_TRACES = 1024;

export class TracesBelow {
  readonly #known = new Map<AskRecord, Trace>();

  of(ask: AskRecord): Trace {
    const known = this.#known.get(ask);
    if (known !== undefined) return known;
    // The first one is the oldest.
    for (const oldest of this.#known.keys()) {
      if (this.#known.size < MAX_TRACES) break;
      this.#known.delete(oldest);
    }
    const trace = traceBelow(uidOf(ask.tenant, ask.id), ask);
    this.#known.set(ask, trace);
    return trace;
  }
}
