/** The real world, with a copy of every log segment that goes: the checks want the whole log. */
import type { Env } from '../../src/kit/env/env.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { type Folders, keepSegment } from './folders.ts';
import { type Operation, WatchedDisk } from './watched-disk.ts';

export interface KeepingOptions {
  /** Calls that are said to have been done and are not. */
  readonly lies?: (operation: Operation) => boolean;
}

export function keepingEnv(folders: Folders, options: KeepingOptions = {}): Env {
  const env = realEnv();
  const around = <T>(operation: Operation, run: () => Promise<T>): Promise<T> => {
    if (operation.kind === 'remove') keepSegment(folders, operation.path);
    return options.lies?.(operation) ? Promise.resolve(undefined as T) : run();
  };
  return { ...env, disk: new WatchedDisk(env.disk, folders.data, around) };
}
