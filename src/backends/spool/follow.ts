/**
 * Follows a job through the spool. The file of its events is opened once: it stays the same file wherever its folder is
 * moved, and so does the watch of the folder.
 */
import type { ExecutionEvent, FollowEnd } from '../../core/ports/backend.ts';
import type { DiskFile, Env } from '../../kit/env/env.ts';
import { FolderWatch } from '../../kit/folder-watch.ts';
import type { Lifecycle } from '../../spool/envelope.ts';
import { jobFiles } from '../../spool/layout.ts';
import type { LocatedJob } from '../../spool/locate.ts';
import { badFileReason, isMissing } from '../../spool/plain-files.ts';
import type { Spool } from '../../spool/spool.ts';
import { EventLines } from './events.ts';
import { endOf, type KnownJob, type TokenState } from './token-state.ts';

export interface FollowedJob {
  readonly env: Pick<Env, 'timers'>;
  readonly spool: Spool;
  /** Settles when the job was found, or is certainly not in the spool. */
  readonly look: (lastSeen: LocatedJob | undefined) => Promise<TokenState>;
}

export async function followJob(
  followed: FollowedJob,
  from: number,
  on: (event: ExecutionEvent) => void,
  signal: AbortSignal,
): Promise<FollowEnd> {
  const reader = new JobReader(followed, from, on, signal);
  try {
    return await reader.read();
  } finally {
    await reader.close();
  }
}

class JobReader {
  readonly #followed: FollowedJob;
  readonly #from: number;
  readonly #on: (event: ExecutionEvent) => void;
  readonly #signal: AbortSignal;
  #watch: FolderWatch | undefined;
  #file: DiskFile | undefined;
  #lines: EventLines | undefined;
  #hasStarted: boolean;

  constructor(followed: FollowedJob, from: number, on: (event: ExecutionEvent) => void, signal: AbortSignal) {
    this.#followed = followed;
    this.#from = from;
    this.#on = on;
    this.#signal = signal;
    this.#hasStarted = from >= 1;
  }

  async read(): Promise<FollowEnd> {
    const { spool, env, look } = this.#followed;
    let lastSeen: LocatedJob | undefined;
    while (!this.#signal.aborted) {
      // The state is read before the events: those of an ended job are complete.
      const state = await look(lastSeen);
      if (state.is === 'absent' || state.is === 'tombstone') return { is: 'lost' };
      lastSeen = state.job;
      if (this.#signal.aborted) break;
      await this.#readEvents(state);
      if (state.is === 'ended') return this.#signal.aborted ? { is: 'lost' } : endOf(spool, state);
      if (this.#watch?.isWatching) await this.#watch.wait(this.#signal);
      else await this.#rewatch(new FolderWatch(env.timers, state.job.folder));
    }
    return { is: 'lost' };
  }

  async close(): Promise<void> {
    this.#watch?.close();
    await this.#file?.close();
  }

  /** A new watch is not waited for: what changed before it began is read first. */
  async #rewatch(watch: FolderWatch): Promise<void> {
    this.#watch?.close();
    this.#watch = watch;
    if (!watch.isWatching) await watch.wait(this.#signal);
  }

  async #readEvents(state: KnownJob): Promise<void> {
    const { lifecycle, job } = state;
    if (!this.#hasStarted && hasBegun(lifecycle)) {
      this.#hasStarted = true;
      const { job_id, model, started_at = lifecycle.offered_at } = lifecycle;
      this.#on({ n: 1, type: 'started', data: { job_id, model, started_at } });
    }
    this.#file ??= await this.#openEvents(job);
    if (this.#file) this.#lines ??= new EventLines(this.#file, this.#from);
    await this.#lines?.read(this.#on, this.#signal, state.is === 'ended');
  }

  /** Undefined where the handler has said nothing yet, or the folder has just been moved. */
  async #openEvents({ folder }: LocatedJob): Promise<DiskFile | undefined> {
    const { disk } = this.#followed.spool.env;
    try {
      return await disk.open(jobFiles(folder).events, 'plain');
    } catch (error) {
      if (isMissing(error) || badFileReason(error) !== undefined) return undefined;
      throw error;
    }
  }
}

/** An agent has had the job: those of others need not count attempts. */
const hasBegun = ({ attempt, status }: Lifecycle): boolean =>
  attempt > 0 || !['queued', 'killed'].includes(status);
