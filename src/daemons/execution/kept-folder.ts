/**
 * The folder of an executor that remembers over its own death: held by one process at a time. A copy of it has a memory of
 * its own: what the original has begun since is not in it.
 */
import { dirname, join } from 'node:path';
import type { Env } from '../../kit/env/env.ts';
import { claimCopy, claimFolder, folderProblem, setAside } from '../../kit/folder-identity.ts';
import type { Logger } from '../../kit/logger.ts';
import { readWholeFile } from '../../kit/whole-file.ts';
import { OrchdError } from '../../model/errors.ts';
import { type KeptRecord, KeptState } from './kept-records.ts';
import { readLines } from './record-lines.ts';
import { RecordLog } from './record-log.ts';

export const KEPT_FILES = { records: 'memory.log', lock: 'memory.lock' } as const;

export interface KeptFolderOptions {
  readonly env: Env;
  readonly logger: Logger;
  readonly folder: string;
  readonly queueOwner: string;
  readonly minCompactBytes?: number;
}

export interface KeptFolder {
  readonly state: KeptState;
  readonly log: RecordLog<KeptRecord>;
  close(): Promise<void>;
}

export async function openKeptFolder(options: KeptFolderOptions): Promise<KeptFolder> {
  const { env, folder } = options;
  await env.disk.makeFolder(folder);
  // Without it a power cut could take the new folder with everything that is remembered in it.
  await env.disk.syncFolder(dirname(folder));
  const lock = await env.disk.lock(join(folder, KEPT_FILES.lock));
  if (!lock) throw new OrchdError('STORE_LOCKED', 'another process has this folder');
  try {
    await claim(options);
    const state = await readState(options);
    const log = await openLog(options, state);
    return {
      state,
      log,
      async close() {
        await log.close();
        await lock.release();
      },
    };
  } catch (error) {
    await lock.release();
    throw error;
  }
}

async function claim({ env, logger, folder }: KeptFolderOptions): Promise<void> {
  if ((await folderProblem(env.disk, folder)) === 'copied') {
    logger.warn('the folder is a copy of another one; its memory is set aside', { address: folder });
    await setAside(env, folder, [join(folder, KEPT_FILES.records)]);
    await claimCopy(env, folder);
  } else await claimFolder(env, folder);
}

/** The state in the file; an empty one where there is no file, or where a part of it is lost. */
async function readState({ env, logger, folder, queueOwner }: KeptFolderOptions): Promise<KeptState> {
  const path = join(folder, KEPT_FILES.records);
  const state = new KeptState(queueOwner);
  const bytes = await readWholeFile(env.disk, path);
  if (!bytes) return state;
  const { records, isDamaged } = readLines(bytes);
  if (isDamaged) {
    const aside = `${path}.damaged-${env.random.hex(4)}`;
    await env.disk.rename(path, aside);
    await env.disk.syncFolder(folder);
    logger.error(
      'the memory of this executor is damaged; it is set aside, and what it held is not known here',
      {
        address: aside,
      },
    );
    return state;
  }
  for (const record of records) state.apply(record as KeptRecord);
  return state;
}

/** Begins the next life of the file. */
async function openLog(
  { env, folder, minCompactBytes }: KeptFolderOptions,
  state: KeptState,
): Promise<RecordLog<KeptRecord>> {
  const isNew = state.registry === '';
  const registry = isNew ? env.random.hex(8) : state.registry;
  state.apply({ is: 'opened', registry, life: state.life + 1 });
  if (isNew) state.apply({ is: 'since', since: env.clock.now() });
  return RecordLog.create<KeptRecord>({
    disk: env.disk,
    path: join(folder, KEPT_FILES.records),
    live: () => state.live(),
    apply: (record) => state.apply(record),
    ...(minCompactBytes !== undefined && { minCompactBytes }),
  });
}
