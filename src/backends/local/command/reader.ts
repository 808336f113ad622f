/**
 * Reads an execution's events from its files. Event 1 is `started`; every further event is a piece of the output.
 * Numbers and pieces depend on the bytes of the files alone, so they are the same for every reader, before and after
 * any restart.
 */
import type { ExecutionEvent } from '../../../core/ports/backend.ts';
import { type Disk, type DiskFile, diskErrorCode, type Env } from '../../../kit/env/env.ts';
import { FolderWatch } from '../../../kit/folder-watch.ts';
import { type ExitRecord, filesIn, type OwnerRecord, type TokenPaths } from './layout.ts';
import { Splitter } from './splitter.ts';

const CHUNK_BYTES = 64 * 1024;
/** The files in a token's folder whose changes a reader waits for. */
const READ_FILES = [filesIn('').stdout, filesIn('').exit];

/** The byte offset of an event, so that a late reader need not count events from the start of the file. */
export interface Milestone {
  /** The number of events before `offset`. */
  readonly n: number;
  readonly offset: number;
}

/** Minimum number of bytes between two milestones. */
const MILESTONE_BYTES = 256 * 1024;
const FIRST_MILESTONE: Milestone = { n: 1, offset: 0 };

export interface ReadableExecution {
  readonly env: Env;
  readonly paths: TokenPaths;
  readonly owner: OwnerRecord;
  /** The milestones in ascending order; the reader appends to them. */
  readonly milestones: Milestone[];
  /** Reads `exit.json`. `checkAlive`: no event has come for a while, so also check that the keeper lives. */
  readonly readExit: (checkAlive: boolean) => Promise<ExitRecord | undefined>;
}

/** Passes on the events after `from`; returns the exit record, or undefined when the signal stopped it first. */
export async function readEvents(
  execution: ReadableExecution,
  from: number,
  on: (event: ExecutionEvent) => void,
  signal: AbortSignal,
): Promise<ExitRecord | undefined> {
  const { env, paths, owner } = execution;
  // The watch begins before the first read, so that no change falls between the two.
  const watch = new FolderWatch(env.timers, paths.folder, (name) => READ_FILES.includes(name));
  let file: DiskFile | undefined;
  let cursor: OutputCursor | undefined;
  try {
    if (from < 1 && !signal.aborted) on({ n: 1, type: 'started', data: startedOf(owner) });
    let why: 'changed' | 'later' = 'changed';
    while (!signal.aborted) {
      // `exit.json` is read before the output: by L3 of layout.ts the output read after it is complete.
      const exit = await execution.readExit(why === 'later');
      file ??= await openOutput(env.disk, paths.stdout);
      if (file) cursor ??= new OutputCursor(execution, file, from);
      await cursor?.read(on, signal, exit);
      if (exit) return signal.aborted ? undefined : exit;
      why = await watch.wait(signal);
    }
    return undefined;
  } finally {
    watch.close();
    await file?.close();
  }
}

/** A command may remove its own output. The keeper puts an empty file in its place before it writes `exit.json`. */
async function openOutput(disk: Disk, path: string): Promise<DiskFile | undefined> {
  try {
    return await disk.open(path, 'read');
  } catch (error) {
    if (diskErrorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}

const startedOf = ({ job_id, model, started_at }: OwnerRecord): object => ({ job_id, model, started_at });

class OutputCursor {
  readonly #file: DiskFile;
  readonly #from: number;
  readonly #splitter: Splitter;
  readonly #milestones: Milestone[];
  /** The bound on the output: what is past it is going to be cut off. */
  readonly #maxBytes: number;
  #n: number;
  #offset: number;

  constructor({ owner, milestones }: ReadableExecution, file: DiskFile, from: number) {
    this.#file = file;
    this.#from = from;
    this.#splitter = new Splitter(owner.split);
    this.#milestones = milestones;
    this.#maxBytes = owner.max_output_bytes ?? Number.POSITIVE_INFINITY;
    const start = milestones.findLast(({ n }) => n <= from) ?? FIRST_MILESTONE;
    this.#n = start.n;
    this.#offset = start.offset;
  }

  /** Passes on all complete pieces; after the end also the incomplete piece at the end. */
  async read(
    on: (event: ExecutionEvent) => void,
    signal: AbortSignal,
    exit: ExitRecord | undefined,
  ): Promise<void> {
    const limit = exit?.output_bytes ?? this.#maxBytes;
    while (!signal.aborted) {
      const wanted = Math.min(CHUNK_BYTES, limit - this.#offset);
      if (wanted <= 0) break;
      const bytes = await this.#file.read(this.#offset, wanted);
      this.#offset += bytes.length;
      this.#emit(this.#splitter.push(bytes), on, signal);
      this.#addMilestone();
      if (bytes.length < CHUNK_BYTES) break;
    }
    if (exit) this.#emit(this.#splitter.end(), on, signal);
  }

  #emit(pieces: readonly Buffer[], on: (event: ExecutionEvent) => void, signal: AbortSignal): void {
    for (const piece of pieces) {
      if (signal.aborted) return;
      const n = ++this.#n;
      if (n > this.#from) on({ n, type: 'token', data: { t: piece.toString(), i: n - 2 } });
    }
  }

  #addMilestone(): void {
    const offset = this.#offset - this.#splitter.pending;
    const newest = this.#milestones.at(-1) ?? FIRST_MILESTONE;
    if (offset >= newest.offset + MILESTONE_BYTES) this.#milestones.push({ n: this.#n, offset });
  }
}
