/** Lists the files of a data folder that hold no data of the store, such as a spare segment: they do no harm, but take space. */

import { basename, join } from 'node:path';
import type { Disk } from '../../../kit/env/env.ts';
import { FOLDER_FILES } from '../../../kit/folder-identity.ts';
import { readSlots } from '../key-slots.ts';
import { type Paths, SPARE, segmentStart } from '../layout.ts';
import type { Generation } from './checkpoint.ts';
import type { Report } from './report.ts';

export async function listOrphans(
  disk: Disk,
  paths: Paths,
  generations: readonly Generation[],
  unusedBlobs: readonly string[],
  report: Report,
): Promise<void> {
  const note = async (file: string, why: string): Promise<void> => {
    const bytes = (await disk.stat(join(paths.folder, file)))?.size ?? 0;
    report.note('files', `${why} (${bytes} bytes)`, file);
  };
  const needed = new Set(generations.flatMap(({ manifest }) => manifest.parts.map(({ name }) => name)));
  for (const name of await disk.list(paths.parts)) {
    if (!needed.has(name)) await note(`checkpoints/${name}`, 'no checkpoint lists this part');
  }
  for (const name of await disk.list(paths.log)) {
    if (name === SPARE) await note(`log/${name}`, 'the reserve for the next segment');
    else if (segmentStart(name) === undefined) await note(`log/${name}`, 'this is no log segment');
  }
  for (const name of unusedBlobs) await note(`blobs/${name}`, 'no job references a body in it');
  let damaged = 0;
  for await (const slot of readSlots(disk, paths.keys)) if (slot === 'damaged') damaged++;
  if (damaged > 0)
    await note(
      basename(paths.keys),
      `${damaged} keys of sessions are incomplete; the next start removes them`,
    );
  const known = knownNames(paths);
  for (const name of await disk.list(paths.folder)) {
    if (name === basename(paths.temporaryManifest)) await note(name, 'a checkpoint that was not finished');
    else if (name === `${basename(paths.history)}.damaged`)
      await note(name, 'a damaged index that was set aside; a new one was made from the log');
    else if (/^copied-[0-9a-f]+$/.test(name))
      await note(name, 'what this copy had of the running work of its original');
    else if (!known.has(name)) await note(name, 'not a file that orchd keeps here');
  }
}

/** Files that the server keeps in the data folder beside the store. */
const SERVER_FILES = ['executions', 'pool', 'tokens.json', 'tokens.lock', ...Object.values(FOLDER_FILES)];

function knownNames(paths: Paths): Set<string> {
  const { lock, manifest, previousManifest, parts, log, blobs, keys, history, moving } = paths;
  const files = [lock, manifest, previousManifest, parts, log, blobs, keys, moving].map((path) =>
    basename(path),
  );
  const index = ['', '-wal', '-shm'].map((suffix) => basename(history) + suffix);
  return new Set([...files, `${basename(lock)}-journal`, ...index, ...SERVER_FILES]);
}
