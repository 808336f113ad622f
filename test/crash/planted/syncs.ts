/** What is written, synced, answered and started in the wrong order. */
import type { PlantedBug } from './catchers.ts';

const JOURNAL = 'src/stores/journal';

export const SYNCS_BUGS: readonly PlantedBug[] = [
  {
    name: 'answer before the flush',
    file: `${JOURNAL}/log/writer.ts`,
    find: '    await segment.file.datasync();\n',
    replace: '    this.#events.durable(this.#durableSeq + count);\n    await segment.file.datasync();\n',
    catcher: 'order',
    says: /the acknowledgement of submit small comes before the sync of log/,
  },
  {
    name: 'no sync of the log',
    file: `${JOURNAL}/log/writer.ts`,
    find: '    await segment.file.datasync();\n',
    replace: '',
    catcher: 'order',
    says: /the acknowledgement of submit small comes before the sync of log/,
  },
  {
    name: 'effect before its intent is durable',
    file: `${JOURNAL}/journal.ts`,
    find: '    return last;\n',
    replace: '    journal.events.durable(last);\n    return last;\n',
    catcher: 'order',
    says: /the start of small:1 comes before/,
  },
  {
    name: 'no sync of the folder of a new segment',
    file: `${JOURNAL}/log/spare.ts`,
    find: '    await this.#disk.syncFolder(this.#paths.log);\n',
    replace: '',
    catcher: 'order',
    says: /is written before its name is durable/,
  },
  {
    name: 'no sync of the folder of the manifest',
    file: `${JOURNAL}/checkpoint/manifest.ts`,
    find: '  await disk.rename(paths.temporaryManifest, paths.manifest);\n  await disk.syncFolder(paths.folder);\n',
    replace: '  await disk.rename(paths.temporaryManifest, paths.manifest);\n',
    catcher: 'order',
    says: /before checkpoint\.json is durable|before the folder of the renamed checkpoint\.json/,
  },
  {
    name: 'a manifest that is renamed before it is synced',
    file: 'src/kit/whole-file.ts',
    find: '    if (isSynced) await file.datasync();\n',
    replace: '',
    catcher: 'order',
    says: /checkpoint\.tmp is renamed to checkpoint\.json before its sync/,
  },
  {
    name: 'no sync of the parts of a checkpoint',
    file: `${JOURNAL}/checkpoint/merge.ts`,
    find: '    await this.#file.datasync();\n',
    replace: '',
    catcher: 'order',
    says: /is not durable when its manifest counts/,
  },
  {
    name: 'no sync of bodies',
    file: `${JOURNAL}/blobs.ts`,
    find: '    await file.datasync();\n',
    replace: '',
    catcher: 'order',
    says: /names blobs\/00000001\.blob before its sync/,
  },
  {
    name: 'the end of the log is trusted without a sync',
    file: `${JOURNAL}/recover.ts`,
    find: 'await file.truncate(end.goodBytes);\n    await file.datasync();\n',
    replace: 'await file.truncate(end.goodBytes);\n',
    catcher: 'order',
    says: /which was read at the start/,
  },
  {
    name: 'a failed sync is tried again',
    file: `${JOURNAL}/log/writer.ts`,
    find: '    await segment.file.datasync();\n',
    replace: '    await segment.file.datasync().catch(() => segment.file.datasync());\n',
    catcher: 'strace',
    says: /after the failed sync|ended with 0/,
  },
];
