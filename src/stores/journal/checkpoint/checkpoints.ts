/** Makes checkpoints: on request, and at every interval at which the log has grown enough. */
import { crashpoint } from '../../../kit/crashpoint.ts';
import type { Cancel, Env } from '../../../kit/env/env.ts';
import { diskFailure } from '../../disk-failure.ts';
import type { Background } from '../background.ts';
import type { Indexer } from '../history/indexer.ts';
import type { Paths } from '../layout.ts';
import type { LogWriter } from '../log/writer.ts';
import { dropOldFiles } from '../retention.ts';
import { type Manifest, writeManifest } from './manifest.ts';

/** With less log than this since the last checkpoint, a new one is not worth its writes. */
const MIN_LOG_BYTES = 2 ** 20;

export interface CheckpointsOptions {
  readonly env: Env;
  readonly paths: Paths;
  readonly background: Background;
  readonly writer: LogWriter;
  readonly indexer: Indexer;
  readonly auditBytes: number;
  readonly intervalMs: number;
  readonly onWarning: ((message: string) => void) | undefined;
}

/** The last checkpoint: at first the one that the folder was opened with, later the one made last. */
export interface CheckpointBase {
  readonly manifest: Manifest;
  /** False where recovery fell back to the previous checkpoint: the next one then replaces the damaged newest one. */
  readonly isNewest: boolean;
}

type Phase =
  | { readonly is: 'idle' }
  | { readonly is: 'writing'; readonly done: Promise<void> }
  | { readonly is: 'closed' };

const IDLE: Phase = { is: 'idle' };

export class Checkpoints {
  readonly #options: CheckpointsOptions;
  #base: CheckpointBase;
  #phase: Phase = IDLE;
  #timer: Cancel;
  /**
   * The audit trail is kept from this instant on, in brain time. Only a purge moves it: it knows whether the clock can be
   * believed (T5 in runtime/brain-clock.ts).
   */
  auditKeptSince = Number.NEGATIVE_INFINITY;

  constructor(parts: CheckpointsOptions, base: CheckpointBase) {
    this.#options = parts;
    this.#base = base;
    this.#timer = this.#scheduleCheck();
  }

  /** Makes a checkpoint. A call while one is being made returns the promise of that one. */
  make(): Promise<void> {
    const phase = this.#phase;
    if (phase.is === 'closed') return Promise.resolve();
    if (phase.is === 'writing') return phase.done;
    const done = this.#write()
      .catch((error: Error) => {
        throw diskFailure(error, 'no checkpoint could be written');
      })
      .finally(() => {
        if (this.#phase.is === 'writing') this.#phase = IDLE;
      });
    this.#phase = { is: 'writing', done };
    return done;
  }

  async close(): Promise<void> {
    const phase = this.#phase;
    this.#phase = { is: 'closed' };
    this.#timer();
    if (phase.is === 'writing') await phase.done.catch(() => undefined);
  }

  #scheduleCheck(): Cancel {
    const { env, intervalMs, onWarning } = this.#options;
    return env.timers.after(intervalMs, () => {
      this.#timer = this.#scheduleCheck();
      if (!this.#isDue()) return;
      // A failed checkpoint only leaves the log longer, so a warning is enough; the log itself reports a bad disk.
      this.make().catch((error: Error) => onWarning?.(`no checkpoint: ${error.message}`));
    });
  }

  /** The log written since the last roll is at least MIN_LOG_BYTES and at least half the size of the last checkpoint. */
  #isDue(): boolean {
    const last = this.#base.manifest.parts.reduce((sum, part) => sum + part.bytes, 0);
    return this.#options.writer.logBytes >= Math.max(MIN_LOG_BYTES, last / 2);
  }

  async #write(): Promise<void> {
    const { env, paths, background, writer, indexer, auditBytes } = this.#options;
    const upTo = await writer.roll();
    const { manifest: base, isNewest } = this.#base;
    if (upTo === base.seq) return;
    crashpoint('checkpoint:after-roll');
    await indexer.noteComplete();
    const { indexedUpTo } = indexer;
    const manifest = await background.merge({ base, upTo, indexedUpTo });
    crashpoint('checkpoint:after-merge');
    await writeManifest(env.disk, paths, manifest, isNewest);
    this.#base = { manifest, isNewest: true };
    crashpoint('checkpoint:after-manifest');
    const audit = { keptSince: this.auditKeptSince, bytes: auditBytes };
    await dropOldFiles(env.disk, paths, [base, manifest], indexer.indexedUpTo, audit);
  }
}
