/** What a brain that starts again does not find, or takes for something else. */
import type { PlantedBug } from './catchers.ts';

const JOURNAL = 'src/stores/journal';
const MARIADB = 'src/stores/mariadb';

export const RECOVERY_BUGS: readonly PlantedBug[] = [
  {
    name: 'the fence is ignored',
    file: 'src/stores/memory/memory.ts',
    find: "    if (this.#opening !== this.#medium.openings) throw new OrchdError('FENCED');\n",
    replace: '',
    catcher: 'fence',
    says: /the first opener is fenced/,
  },
  {
    name: 'a new brain keeps the epoch of the old one',
    file: 'src/core/engine/brain.ts',
    find: '  const epoch = known.epoch + 1;\n',
    replace: '  const { epoch } = known;\n',
    catcher: 'order',
    says: /epoch 1 -> 1/,
  },
  {
    name: 'the wait of a retry is only in memory',
    file: `${JOURNAL}/log/codec.ts`,
    find: 'change.id, change.after, change.cause]',
    replace:
      "change.id, change.kind === 'job' ? { ...change.after, notBefore: undefined } : change.after, change.cause]",
    catcher: 'killWhileWaiting',
    says: /started \d+ ms after \w+:\d had failed/,
  },
  {
    name: 'the tries spent are only in memory',
    file: `${JOURNAL}/log/codec.ts`,
    find: 'change.id, change.after, change.cause]',
    replace: "change.id, change.kind === 'job' ? { ...change.after, tries: 0 } : change.after, change.cause]",
    catcher: 'killAfterOffer',
    says: /doomed failed 3 times, may 2/,
  },
  {
    name: 'keys are only in memory',
    file: 'src/core/restore.ts',
    find: '    this.#state.seq = seq;\n',
    replace:
      '    this.#state.seq = seq;\n    for (const entry of this.#state.jobs.values()) this.#state.roster.remove(entry);\n',
    catcher: 'killAfterOffer',
    says: /gets the key k\d while/,
  },
  {
    name: 'a checkpoint lets go of jobs that the history has not got',
    file: `${JOURNAL}/checkpoint/merge.ts`,
    find: "if (change.kind !== 'ask') delta.dropEnded(jobOf(change), order.indexedUpTo);",
    replace: "if (change.kind !== 'ask') delta.dropEnded(jobOf(change), Number.POSITIVE_INFINITY);",
    catcher: 'killAfterCheckpoint',
    says: /is neither in memory nor in the history/,
  },
  {
    name: 'the previous checkpoint is not looked for',
    file: `${JOURNAL}/recover.ts`,
    find: 'for (const path of [paths.manifest, paths.previousManifest]) {',
    replace: 'for (const path of [paths.manifest]) {',
    catcher: 'killInRename',
    says: /STORE_CORRUPT|recovering twice|the log has no segment/,
  },
  {
    name: 'a torn frame at the end is taken for damage',
    file: `${JOURNAL}/log/segments.ts`,
    find: "if (read.is === 'corrupt') throw",
    replace: "if (read.is === 'corrupt' || read.is === 'torn') throw",
    catcher: 'killInFrame',
    says: /is damaged at byte/,
  },
  {
    name: 'a torn frame at the end is left there',
    file: `${JOURNAL}/recover.ts`,
    find: '    if (end.fileBytes > end.goodBytes) await file.truncate(end.goodBytes);\n',
    replace: '',
    catcher: 'killInFrame',
    says: /is damaged at byte/,
  },
  {
    name: 'the history is ahead of the log and the start takes it silently',
    file: `${JOURNAL}/lost-end.ts`,
    find: "  if (seen > lastSeq) throw lostEnd(end, seen, 'the index of ended jobs');\n",
    replace: '  if (seen > lastSeq) return;\n',
    catcher: 'lostEnd',
    says: /a log that is cut off in the middle is refused with its position[\s\S]*Missing expected rejection/,
  },
  {
    name: 'statements without a transaction',
    file: `${MARIADB}/sql.ts`,
    find: "    await this.run('SET autocommit = 0');\n",
    replace: '',
    catcher: 'killInStatements',
    says: /rows of the trail for/,
  },
  {
    name: 'a copied folder is used like the original',
    file: 'src/kit/folder-identity.ts',
    find: "  return known && marker?.identity !== known.marker ? 'copied' : undefined;\n",
    replace: '',
    catcher: 'copies',
    says: /Missing expected rejection/,
  },
  {
    name: 'the doctor does not know a redriven job',
    file: `${JOURNAL}/doctor/replay.ts`,
    find: '        if (change.after && isRestored) this.#restoreAttempt(change.id, change.after);\n        else ',
    replace: '        ',
    catcher: 'doctor',
    says: /began as ended/,
  },
];
