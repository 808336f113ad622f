/** Starts processes whose standard streams are pipes. */
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';

/**
 * As `spawn`, and throws also where no file descriptors are left for the pipes. There `spawn` returns a child without
 * streams, whose error nobody could listen to in time: it would end this program.
 */
export function spawnPiped(program: string, args: readonly string[], options: SpawnOptions): ChildProcess {
  const child = spawn(program, args, options);
  if ((child.stdio as unknown) !== undefined) return child;
  child.once('error', () => undefined);
  throw Object.assign(new Error('no file descriptors are left'), { code: 'EMFILE' });
}
