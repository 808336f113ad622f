/**
 * Preloaded into a process that a test kills: it dies by its own hand at the place that the file in DIES_AT names, before
 * or after a rename of a job's files or folders, or at a crash point. While there is no such file, nothing happens.
 */
import fs from 'node:fs';
import { armCrashpoints } from '../../../src/kit/crashpoint.ts';

export type Death =
  | { readonly at: 'rename'; readonly job: string; readonly n: number; readonly side: 'before' | 'after' }
  | { readonly at: 'crashpoint'; readonly name: string };

const file = process.env['DIES_AT'] ?? '';

function death(): Death | undefined {
  try {
    return JSON.parse(fs.readFileSync(file, 'utf8')) as Death;
  } catch {
    return undefined;
  }
}

const die = (): void => void process.kill(process.pid, 'SIGKILL');

armCrashpoints((name) => {
  const due = death();
  if (due?.at === 'crashpoint' && due.name === name) die();
});

/** The renames so far, by job. */
const renames = new Map<string, number>();

function sideOf(paths: string): 'before' | 'after' | undefined {
  const due = death();
  if (due?.at !== 'rename' || !paths.includes(due.job)) return undefined;
  const n = (renames.get(due.job) ?? 0) + 1;
  renames.set(due.job, n);
  return n === due.n ? due.side : undefined;
}

const { rename, renameSync } = fs;
const dyingRename = (from: string, to: string, done: fs.NoParamCallback): void => {
  const side = sideOf(`${from} ${to}`);
  if (side === 'before') die();
  else rename(from, to, side === 'after' ? die : done);
};
/** The renames of spool daemons, which block. */
const dyingRenameSync = (from: string, to: string): void => {
  const side = sideOf(`${from} ${to}`);
  if (side === 'before') die();
  renameSync(from, to);
  if (side === 'after') die();
};
Object.assign(fs, { rename: dyingRename, renameSync: dyingRenameSync });
