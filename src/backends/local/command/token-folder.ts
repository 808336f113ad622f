/** The supervisor's side of a token's folder: creates it atomically (L1 of layout.ts) and writes its files. */
import fs from 'node:fs';
import { join } from 'node:path';
import { makePrivateFolder, openPrivate } from '../../../kit/env/private-files.ts';
import { identityOf } from '../../../kit/process/identity.ts';
import {
  filesIn,
  layoutOf,
  type OwnerRecord,
  pathsOf,
  type SupervisorSpec,
  type TokenPaths,
} from './layout.ts';

/** The errors of a rename onto a folder that exists already. */
const TAKEN_ERRNOS = ['ENOTEMPTY', 'EEXIST', 'ENOTDIR'];

/** Creates the token's folder for this supervisor; `taken` where the folder exists. */
export function createTokenFolder(spec: SupervisorSpec, now: number): TokenPaths | 'taken' {
  const layout = layoutOf(spec.folder);
  const paths = pathsOf(layout, spec.brain, spec.token);
  if (fs.existsSync(paths.folder)) return 'taken';
  const self = identityOf(process.pid);
  // The name contains the pid and start time of this process: a folder whose process is dead can be removed.
  const staging = join(layout.staging, `s-${self.pid}-${self.start}`);
  makePrivateFolder(staging);
  try {
    const owner: OwnerRecord = {
      ...self,
      token: spec.token,
      hash: spec.hash,
      job_id: spec.jobId,
      model: spec.model,
      split: spec.split,
      started_at: now,
    };
    const files = filesIn(staging);
    fs.closeSync(openPrivate(files.stdout, 'wx'));
    makePrivateFolder(files.work);
    writeJson(files.owner, owner, 'durable');
    syncFolder(staging);
    fs.renameSync(staging, paths.folder);
  } catch (error) {
    fs.rmSync(staging, { recursive: true, force: true });
    if (TAKEN_ERRNOS.includes((error as NodeJS.ErrnoException).code ?? '')) return 'taken';
    throw error;
  }
  syncFolder(layout.executions);
  return paths;
}

/** Writes a JSON file by way of a rename, so that no reader sees half of it. `durable`: synced before the rename. */
export function writeJson(path: string, value: unknown, how: 'durable' | 'visible'): void {
  const temporary = `${path}.tmp`;
  const fd = openPrivate(temporary, 'w');
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

/** Opens the payload as a file for reading and removes its name, so that it is not left on the disk. */
export function openPayload(folder: string, payload: string | Uint8Array): number {
  const path = join(folder, 'input');
  const fd = openPrivate(path, 'wx');
  try {
    writeAll(fd, typeof payload === 'string' ? Buffer.from(payload) : payload);
    return fs.openSync(path, 'r');
  } finally {
    fs.closeSync(fd);
    fs.unlinkSync(path);
  }
}
