/**
 * Reads an execution's events out of its files. The first says that it has started; every further one is a
 * piece of its output. Numbers and pieces follow from the bytes alone, so they are the same for every reader,
 * at any time, before and after any restart.
 */
import type { ExecutionEvent } from '../../../core/ports/backend.ts';
import type { DiskFile, Env } from '../../../kit/env/env.ts';
import { FolderWatch } from '../../../kit/folder-watch.ts';
import type { ExitRecord, OwnerRecord, TokenPaths } from './layout.ts';
import { Splitter } from './splitter.ts';

const CHUNK_BYTES = 64 * 1024;

/** Where a piece begins, so that a reader who comes late need not count from the start. */
export interface Milestone {
  /** Events before it. */
  readonly n: number;
  readonly offset: number;
}

const MILESTONE_BYTES = 256 * 1024;
const FIRST_MILESTONE: Milestone = { n: 1, offset: 0 };

export interface ReadParts {
  readonly env: Env;
  readonly paths: TokenPaths;
  readonly owner: OwnerRecord;
  /** Added to while reading; ascending. */
  readonly milestones: Milestone[];
  /** Its end, when that is written. `closer`: nothing has come for a while, so see whether it still lives. */
  readonly ended: (closer: boolean) => Promise<ExitRecord | undefined>;
}

/** Hands on the events after `from`; returns the end, or undefined when the signal came first. */
export async function readEvents(
  parts: ReadParts,
  from: number,
  on: (event: ExecutionEvent) => void,
  signal: AbortSignal,
): Promise<ExitRecord | undefined> {
  const { env, paths, owner } = parts;
  const file = await env.disk.open(paths.stdout, 'read');
  // Watched before the first look, so that nothing falls between the two.
  const watch = new FolderWatch(env.timers, paths.folder);
  try {
    const cursor = new Cursor(parts, file, from);
    if (from < 1 && !signal.aborted) on({ n: 1, type: 'started', data: startedOf(owner) });
    let why: 'changed' | 'later' = 'changed';
    while (!signal.aborted) {
      // Its end is looked for first: what is read after that is everything.
      const exit = await parts.ended(why === 'later');
      await cursor.read(on, signal, exit !== undefined);
      if (exit) return signal.aborted ? undefined : exit;
      why = await watch.wait(signal);
    }
    return undefined;
  } finally {
    watch.close();
    await file.close();
  }
}

const startedOf = ({ job_id, model, started_at }: OwnerRecord): object => ({ job_id, model, started_at });

class Cursor {
  readonly #file: DiskFile;
  readonly #from: number;
  readonly #splitter: Splitter;
  readonly #milestones: Milestone[];
  #n: number;
  #offset: number;

  constructor({ owner, milestones }: ReadParts, file: DiskFile, from: number) {
    this.#file = file;
    this.#from = from;
    this.#splitter = new Splitter(owner.split);
    this.#milestones = milestones;
    const start = milestones.findLast(({ n }) => n <= from) ?? FIRST_MILESTONE;
    this.#n = start.n;
    this.#offset = start.offset;
  }

  /** Everything there is; with `last` also what stands at the end without being complete. */
  async read(on: (event: ExecutionEvent) => void, signal: AbortSignal, last: boolean): Promise<void> {
    while (!signal.aborted) {
      const bytes = await this.#file.read(this.#offset, CHUNK_BYTES);
      this.#offset += bytes.length;
      this.#hand(this.#splitter.push(bytes), on, signal);
      this.#note();
      if (bytes.length < CHUNK_BYTES) break;
    }
    if (last) this.#hand(this.#splitter.end(), on, signal);
  }

  #hand(pieces: readonly Buffer[], on: (event: ExecutionEvent) => void, signal: AbortSignal): void {
    for (const piece of pieces) {
      if (signal.aborted) return;
      const n = ++this.#n;
      if (n > this.#from) on({ n, type: 'token', data: { t: piece.toString(), i: n - 2 } });
    }
  }

  #note(): void {
    const offset = this.#offset - this.#splitter.pending;
    const newest = this.#milestones.at(-1) ?? FIRST_MILESTONE;
    if (offset >= newest.offset + MILESTONE_BYTES) this.#milestones.push({ n: this.#n, offset });
  }
}
