/** What a check of a spool can find, and what to do about it. */

interface FindingKind {
  /**
   * `unfinished`: a watchdog or a manager mends it. `refused`: somebody has to look at it; nothing was done to it.
   * `broken`: no actor that follows the protocol leaves it so.
   */
  readonly is: 'unfinished' | 'refused' | 'broken';
  readonly next: string;
}

const unfinished = (next: string): FindingKind => ({ is: 'unfinished', next });
const refused = (next: string): FindingKind => ({ is: 'refused', next });
const broken = (next: string): FindingKind => ({ is: 'broken', next });

const BY_WATCHDOG = 'Run a watchdog: `orchd spool watchdog DIR`.';

export const FINDINGS = {
  FOLDER_MISSING: broken('Make it with `orchd spool init DIR`.'),
  OTHER_FILE_SYSTEM: refused(
    'Put all folders of the spool on one file system: a job is moved by one rename.',
  ),
  UNMOVABLE: refused(
    'Put it on the file system of the spool, and give the user of the agents the right to write to it.',
  ),
  UNREADABLE: refused('Give the user of the agents the right to read it, or remove it.'),
  DEAD_LOCK: unfinished(BY_WATCHDOG),
  ABANDONED_JOB: unfinished(BY_WATCHDOG),
  DEAD_ACTOR: unfinished(BY_WATCHDOG),
  TEMPORARY_FILE: unfinished('Remove the file.'),
  BAD_NAME: refused('Give it another name, or remove it.'),
  NOT_A_FOLDER: refused('Remove it, or put it into the folder of a job.'),
  BAD_PROMPT: refused('Correct prompt.json, or remove the folder.'),
  UNREADABLE_JOB: refused('Correct job.json, or remove it where the job has not been run.'),
  UNKNOWN_VERSION: refused('Run it with a version of orchd that knows this schema-version.'),
  TWIN: refused('Give one of the two another name.'),
  WRONG_PLACE: broken('Move the folder to the place of its status, or use `orchd spool requeue`.'),
  MISSING_RESULT: broken('Look into the folder: the job has succeeded without a result.'),
  MISSING_LOCK: broken('Nothing: the job goes on. Another program has removed its lock.'),
  WRONG_HISTORY: broken('Nothing: the job goes on. Its history.jsonl was changed by another program.'),
} as const satisfies Record<string, FindingKind>;

export type FindingCode = keyof typeof FINDINGS;

export interface Finding {
  readonly code: FindingCode;
  /** The path in the spool. */
  readonly path: string;
  readonly why: string;
}
