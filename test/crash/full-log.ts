/** The whole log from the first change on: the segments in the data folder, and those that were removed. */
import fs from 'node:fs';
import { join } from 'node:path';
import type { Disk, DiskFile } from '../../src/kit/env/env.ts';
import { RealDisk } from '../../src/kit/env/real-disk.ts';
import type { Change } from '../../src/model/records.ts';
import { decodeChanges } from '../../src/stores/journal/log/codec.ts';
import { readLog } from '../../src/stores/journal/log/segments.ts';
import type { Folders } from './folders.ts';

export interface LoggedChange {
  readonly seq: number;
  readonly change: Change;
  /** When its frame was made. */
  readonly at: number;
}

/** Reads strictly: any damage throws. */
export async function readFullLog(folders: Folders): Promise<LoggedChange[]> {
  const log = join(folders.data, 'log');
  const live = new RealDisk();
  const find = (path: string): string =>
    fs.existsSync(path) ? path : join(folders.archive, path.slice(log.length + 1));
  const overlay = {
    list: async () => [...new Set([...(await live.list(log)), ...(await live.list(folders.archive))])].sort(),
    open: (path: string): Promise<DiskFile> => live.open(find(path), 'read'),
  } as unknown as Disk;
  const changes: LoggedChange[] = [];
  await readLog(overlay, log, { nextSeq: 1, chain: 0 }, ({ header, payload }) => {
    decodeChanges(payload, header.count).forEach((change, at) => {
      changes.push({ seq: header.firstSeq + at, change, at: header.at });
    });
  });
  return changes;
}
