/** The names of the files and folders inside a data folder. */
import { join } from 'node:path';

/** The version of this layout, written into every checkpoint manifest. */
export const FORMAT = 1;

export const paths = (folder: string) => ({
  folder,
  lock: join(folder, 'lock'),
  manifest: join(folder, 'checkpoint.json'),
  previousManifest: join(folder, 'checkpoint.previous.json'),
  temporaryManifest: join(folder, 'checkpoint.tmp'),
  parts: join(folder, 'checkpoints'),
  log: join(folder, 'log'),
  spare: join(folder, 'log', SPARE),
  blobs: join(folder, 'blobs'),
  keys: join(folder, 'session-keys'),
  history: join(folder, 'history.sqlite'),
  moving: join(folder, 'moving.json'),
  temporaryMoving: join(folder, 'moving.tmp'),
});

export type Paths = ReturnType<typeof paths>;

export const SPARE = 'spare';

const DIGITS = 16;

export const segmentName = (firstSeq: number): string => `${String(firstSeq).padStart(DIGITS, '0')}.log`;

/** The first sequence of a segment; undefined where the name is not that of a segment. */
export function segmentStart(name: string): number | undefined {
  return /^\d{16}\.log$/.test(name) ? Number(name.slice(0, DIGITS)) : undefined;
}

export const blobName = (file: number): string => `${String(file).padStart(8, '0')}.blob`;

export function blobNumber(name: string): number | undefined {
  return /^\d{8}\.blob$/.test(name) ? Number(name.slice(0, 8)) : undefined;
}
