/** Takes a token's folder for this supervisor, or finds it taken; and writes files that are whole or not there. */
import fs from 'node:fs';
import { join } from 'node:path';
import { identityOf } from '../../../kit/process/identity.ts';
import { filesIn, layoutOf, type OwnerRecord, pathsOf, type Spec, type TokenPaths } from './layout.ts';

/** What a rename onto a folder that is taken fails with. */
const TAKEN = ['ENOTEMPTY', 'EEXIST', 'ENOTDIR'];

export function takePlace(spec: Spec, now: number): TokenPaths | 'taken' {
  const layout = layoutOf(spec.folder);
  const paths = pathsOf(layout, spec.token);
  if (fs.existsSync(paths.folder)) return 'taken';
  const self = identityOf(process.pid);
  // Named after its maker, so that what a dead one left can be told from what is being made.
  const staging = join(layout.staging, `s-${self.pid}-${self.start}`);
  fs.mkdirSync(staging, { mode: 0o700 });
  try {
    const owner: OwnerRecord = {
      ...self,
      token: spec.token,
      job_id: spec.jobId,
      model: spec.model,
      split: spec.split,
      started_at: now,
    };
    const files = filesIn(staging);
    fs.closeSync(fs.openSync(files.stdout, 'wx', 0o600));
    fs.mkdirSync(files.work, { mode: 0o700 });
    writeWhole(files.owner, owner, 'durable');
    syncFolder(staging);
    fs.renameSync(staging, paths.folder);
  } catch (error) {
    fs.rmSync(staging, { recursive: true, force: true });
    if (TAKEN.includes((error as NodeJS.ErrnoException).code ?? '')) return 'taken';
    throw error;
  }
  syncFolder(layout.executions);
  return paths;
}

/** The text of a file appears at once; `durable` when it must also outlast a loss of power. */
export function writeWhole(path: string, value: unknown, how: 'durable' | 'visible'): void {
  const temporary = `${path}.tmp`;
  const fd = fs.openSync(temporary, 'w', 0o600);
  try {
    writeAll(fd, Buffer.from(`${JSON.stringify(value)}\n`));
    if (how === 'durable') fs.fsyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
  fs.renameSync(temporary, path);
}

export function writeAll(fd: number, bytes: Uint8Array): void {
  let done = 0;
  while (done < bytes.length) done += fs.writeSync(fd, bytes, done);
}

export function syncFolder(path: string): void {
  const fd = fs.openSync(path, 'r');
  try {
    fs.fsyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
}

/** The payload as a file without a name: it is read like any other input, and gone with its reader. */
export function inputOf(folder: string, payload: string): number {
  const path = join(folder, 'input');
  const fd = fs.openSync(path, 'wx', 0o600);
  try {
    writeAll(fd, Buffer.from(payload));
    return fs.openSync(path, 'r');
  } finally {
    fs.closeSync(fd);
    fs.unlinkSync(path);
  }
}
