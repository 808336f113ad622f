/** An open spool: its folders, and what all transactions need. */
import { join, relative } from 'node:path';
import type { Env } from '../kit/env/env.ts';
import { FolderSyncs } from '../kit/folder-syncs.ts';
import type { Logger } from '../kit/logger.ts';
import type { Host } from '../kit/process/host.ts';
import { OrchdError } from '../model/errors.ts';
import { type SpoolPaths, spoolFolders, spoolPaths } from './layout.ts';
import { readPlainRecord, replaceSynced } from './plain-files.ts';

export interface SpoolSettings {
  /** A process that cannot be asked for counts as dead when its heartbeat was unchanged for so long. */
  readonly foreignLockTtlMs: number;
  /** A `prompt.json` that was made in place counts when it was unchanged for so long. */
  readonly settleMs: number;
  /** A longer `prompt.json` is not run. */
  readonly maxPromptBytes: number;
  /** The `max_retries` of a job that names none. */
  readonly maxRetries: number;
}

export const SPOOL_DEFAULTS: SpoolSettings = {
  foreignLockTtlMs: 120_000,
  settleMs: 500,
  maxPromptBytes: 16 * 1024 * 1024,
  maxRetries: 3,
};

export interface Spool {
  readonly env: SpoolEnv;
  readonly host: Host;
  readonly logger: Logger;
  readonly paths: SpoolPaths;
  readonly settings: SpoolSettings;
  /** Shared by all jobs in flight. */
  readonly syncs: FolderSyncs;
}

export type SpoolEnv = Pick<Env, 'disk' | 'random' | 'clock' | 'timers'>;

export interface SpoolOptions {
  readonly env: SpoolEnv;
  readonly host: Host;
  readonly logger: Logger;
  readonly folder: string;
  readonly settings?: Partial<SpoolSettings>;
}

export function spoolAt({ env, host, logger, folder, settings }: SpoolOptions): Spool {
  return {
    env,
    host,
    logger,
    paths: spoolPaths(folder),
    settings: { ...SPOOL_DEFAULTS, ...settings },
    syncs: new FolderSyncs(env.disk, env.timers),
  };
}

/** Makes the folders of a spool; leaves those that exist. */
export async function makeSpool({ env: { disk }, paths }: Spool): Promise<void> {
  const folders = spoolFolders(paths);
  for (const folder of folders) await disk.makeFolder(folder);
  for (const folder of [join(paths.root, '..'), ...folders]) await disk.syncFolder(folder);
}

const SPOOL_FILE = 'spool.json';

const isSpoolRecord = (value: unknown): value is { readonly id: string } =>
  typeof (value as { id?: unknown } | null)?.id === 'string';

/** The id of the spool, which is made when it is asked for the first time. */
export async function spoolId({ env: { disk, random }, paths }: Spool): Promise<string> {
  const path = join(paths.root, SPOOL_FILE);
  const known = await readPlainRecord(disk, path, isSpoolRecord);
  if (known) return known.id;
  const id = random.hex(8);
  const temporary = `${path}.${id}.tmp`;
  await replaceSynced(disk, path, temporary, `${JSON.stringify({ id })}\n`);
  await disk.syncFolder(paths.root);
  // Another process may have made one at the same time, and the last one counts.
  return (await readPlainRecord(disk, path, isSpoolRecord))?.id ?? id;
}

/** Whether any folder of a spool is there; some may be missing. */
export async function isSpool({ env: { disk }, paths }: Spool): Promise<boolean> {
  const [, ...parts] = spoolFolders(paths);
  const found = await Promise.all(parts.map((folder) => disk.lstat(folder)));
  return found.some((stat) => stat?.kind === 'folder');
}

/** Throws where the folder is no spool, or lies on two file systems: a job could not be moved by one rename. */
export async function openSpool(options: SpoolOptions): Promise<Spool> {
  const spool = spoolAt(options);
  const { disk } = spool.env;
  const devices = new Set<string>();
  for (const folder of spoolFolders(spool.paths)) {
    const stat = await disk.lstat(folder);
    if (stat?.kind !== 'folder')
      throw new OrchdError('SPOOL_INVALID', noSpool(options.folder, folder, stat !== undefined));
    devices.add(stat.device);
  }
  if (devices.size > 1)
    throw new OrchdError('SPOOL_INVALID', `the folders of "${options.folder}" lie on different file systems`);
  return spool;
}

function noSpool(root: string, folder: string, isThere: boolean): string {
  const what = isThere ? 'is no folder' : 'is not there';
  return folder === root ? `"${root}" ${what}` : `"${root}" is no spool: "${relative(root, folder)}" ${what}`;
}
