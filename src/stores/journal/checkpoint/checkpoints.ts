/** Makes checkpoints: when asked, and by itself whenever the log has grown enough. */
import { crashpoint } from '../../../kit/crashpoint.ts';
import type { Cancel, Env } from '../../../kit/env/env.ts';
import { diskFailure } from '../../disk-failure.ts';
import type { Background } from '../background.ts';
import type { Indexer } from '../history/indexer.ts';
import type { Paths } from '../layout.ts';
import type { LogWriter } from '../log/writer.ts';
import { dropOldFiles, type RetentionLimits } from '../retention.ts';
import { type Manifest, writeManifest } from './manifest.ts';

/** Below this much log a checkpoint is not worth its writes. */
const MIN_LOG_BYTES = 2 ** 20;

export interface CheckpointParts {
  readonly env: Env;
  readonly paths: Paths;
  readonly background: Background;
  readonly writer: LogWriter;
  readonly indexer: Indexer;
  readonly limits: RetentionLimits;
  readonly intervalMs: number;
  readonly onWarning: ((message: string) => void) | undefined;
}

/** The checkpoint that the folder was opened with. */
export interface CheckpointBase {
  readonly manifest: Manifest;
  /** False where the newest one could not be used: then the one before it stays. */
  readonly isNewest: boolean;
}

type Phase =
  | { readonly is: 'idle' }
  | { readonly is: 'writing'; readonly done: Promise<void> }
  | { readonly is: 'closed' };

const IDLE: Phase = { is: 'idle' };

export class Checkpoints {
  readonly #parts: CheckpointParts;
  #base: CheckpointBase;
  #phase: Phase = IDLE;
  #nextLook: Cancel;

  constructor(parts: CheckpointParts, base: CheckpointBase) {
    this.#parts = parts;
    this.#base = base;
    this.#nextLook = this.#lookLater();
  }

  /** One at a time: whoever asks while one is made gets that one. */
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
    this.#nextLook();
    if (phase.is === 'writing') await phase.done.catch(() => undefined);
  }

  #lookLater(): Cancel {
    const { env, intervalMs, onWarning } = this.#parts;
    return env.timers.after(intervalMs, () => {
      this.#nextLook = this.#lookLater();
      if (!this.#isDue()) return;
      // A checkpoint that cannot be written costs nothing but a longer log; the log itself reports a bad disk.
      this.make().catch((error: Error) => onWarning?.(`no checkpoint: ${error.message}`));
    });
  }

  /** The log has grown by half of the last checkpoint. */
  #isDue(): boolean {
    const last = this.#base.manifest.parts.reduce((sum, part) => sum + part.bytes, 0);
    return this.#parts.writer.logBytes >= Math.max(MIN_LOG_BYTES, last / 2);
  }

  async #write(): Promise<void> {
    const { env, paths, background, writer, indexer, limits } = this.#parts;
    const upTo = await writer.roll();
    const { manifest: base, isNewest } = this.#base;
    if (upTo === base.seq) return;
    crashpoint('checkpoint:after-roll');
    await indexer.noteComplete();
    const { indexedUpTo } = indexer;
    const manifest = await background.merge({ base, upTo, indexedUpTo, at: env.clock.now() });
    crashpoint('checkpoint:after-merge');
    await writeManifest(env.disk, paths, manifest, isNewest);
    this.#base = { manifest, isNewest: true };
    crashpoint('checkpoint:after-manifest');
    await dropOldFiles(env, paths, [base, manifest], indexer.indexedUpTo, limits);
  }
}
