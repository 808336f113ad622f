/** Processes whose standard streams are pipes. */
import type { ChildProcess } from 'node:child_process';

/**
 * Call it at once with what `spawn` has returned. Throws where no file descriptors are left for the pipes: there the child
 * has no streams, and its error, to which nobody could listen in time, would end this program.
 */
export function withPipes(child: ChildProcess): ChildProcess {
  if ((child.stdio as unknown) !== undefined) return child;
  child.once('error', () => undefined);
  throw Object.assign(new Error('no file descriptors are left'), { code: 'EMFILE' });
}
