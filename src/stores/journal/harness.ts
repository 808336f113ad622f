/** Opens the journal for the conformance suite, on a disk whose syncs can be delayed or made to fail. */
import { join } from 'node:path';
import type { Disk, DiskFile, Env } from '../../kit/env/env.ts';
import type { BlobRef } from '../../model/body.ts';
import { Gate, type Harnesses, type HarnessKit } from '../conformance/harness.ts';
import type { StoreFixture } from '../conformance/opened.ts';
import { type Background, InlineBackground } from './background.ts';
import type { FileRef } from './blobs.ts';
import { SqliteHistory } from './history/sqlite.ts';
import { JournalStore } from './journal.ts';
import type { Paths } from './layout.ts';
import { LOG_LIMITS, type LogLimits } from './log/writer.ts';
import { ThreadBackground } from './thread.ts';

class FixtureDisk {
  readonly gate = new Gate();
  broken = false;
  readonly disk: Disk;

  constructor(real: Disk) {
    this.disk = new Proxy(real, {
      get: (target, name) => {
        if (name === 'open')
          return async (...args: Parameters<Disk['open']>) => this.#file(await target.open(...args));
        const member = target[name as keyof Disk];
        return typeof member === 'function' ? member.bind(target) : member;
      },
    });
  }

  #file(file: DiskFile): DiskFile {
    const sync = file.datasync.bind(file);
    file.datasync = async () => {
      await this.gate.pass();
      if (this.broken) throw Object.assign(new Error('the disk is broken'), { code: 'EIO' });
      await sync();
    };
    return file;
  }
}

async function journal(
  kit: HarnessKit,
  background: (env: Env, paths: Paths) => Background,
  limits: LogLimits = LOG_LIMITS,
): Promise<StoreFixture> {
  const { turns, within } = kit;
  const folder = kit.folder();
  const fixtureDisk = new FixtureDisk(kit.env.disk);
  // The clock stands still, so that nothing expires between two comparisons.
  const env = { ...kit.env, disk: fixtureDisk.disk, clock: { now: () => 0, monotonic: () => 0 } };
  const options = {
    folder: join(folder.path, 'data'),
    checkpointIntervalMs: 60_000,
    historyMs: 1e15,
    auditMs: 1e15,
    auditBytes: 2 ** 30,
    background: (paths: Paths) => background(env, paths),
    limits,
  };
  return {
    make: () => new JournalStore(env, options),
    hold: () => fixtureDisk.gate.hold(),
    breakWrites: async () => {
      fixtureDisk.broken = true;
    },
    lost: (ref) => ({ ...ref, file: (ref as FileRef).file + 1000 }) as BlobRef,
    turns,
    within,
    remove: folder.remove,
  };
}

const inline = (env: Env, paths: Paths): Background =>
  new InlineBackground(env.disk, paths, new SqliteHistory(paths.history, 'write'));

/** Limits small enough for segments to fill up within a test. */
const SMALL: LogLimits = {
  minSegmentBytes: 16 * 1024,
  maxSegmentBytes: 64 * 1024,
  maxFrameBytes: 8 * 1024,
  maxPendingBytes: 2 ** 20,
};

export const harnesses: Harnesses = {
  'journal (inline, small segments)': (kit) => journal(kit, inline, SMALL),
  'journal (thread)': (kit) => journal(kit, (env, paths) => new ThreadBackground(paths, env.timers)),
};
