/** What the doctor says: one finding per check at least, each with a verdict, a sentence and a place. */
import type { JobState } from '../../../model/states.ts';

/** `ok`: as it should be. `warn`: worth knowing, nothing is damaged. `bad`: damaged, or not what was written. */
export type Verdict = 'ok' | 'warn' | 'bad';

/** Every check, in the order in which it is reported, with what is said when nothing is wrong. */
export const CHECKS = {
  folder: 'it is a data folder',
  format: 'its format is known',
  lock: 'no process holds it',
  checkpoint: 'there is no checkpoint yet',
  'checkpoint.previous': 'there is no previous checkpoint yet',
  'log.order': 'the segments follow each other without a gap',
  'log.frames': 'every frame matches its checksum',
  'log.chain': 'every frame follows the one before it',
  'log.epoch': 'epochs never fall',
  'log.tail': 'the log ends cleanly',
  records: 'every change can be read',
  moves: 'every move of a job and an attempt is legal',
  attempts: 'attempt numbers only grow, one attempt is open at a time, and a token has one backend',
  keys: 'a key belongs to one live job at a time',
  jobs: 'jobs and attempts belong together, and ended jobs have an end time',
  replay: 'checkpoint and log agree, and recovering twice gives the same state',
  blobs: 'every body that a job names is there and matches its checksum',
  history: 'the index of ended jobs agrees with the log',
  files: 'there is no file that nothing needs',
  start: 'orchd starts from this folder',
} as const;

export type CheckId = keyof typeof CHECKS;

export interface DoctorFinding {
  readonly check: CheckId;
  readonly verdict: Verdict;
  readonly sentence: string;
  /** `<file in the folder>:<byte>`, or the file alone. */
  readonly position: string | undefined;
}

/** What is in the folder, for a person who wants to know that it is the right one. */
export interface FolderFacts {
  readonly owner: string | undefined;
  readonly epoch: number | undefined;
  readonly lastSeq: number;
  readonly checkpointSeq: number | undefined;
  readonly segments: number;
  readonly logBytes: number;
  readonly jobs: Readonly<Record<JobState, number>> | undefined;
}

/** Findings of one kind are counted beyond this many, not listed: damage can repeat a million times. */
const LISTED = 20;

export class Report {
  readonly #findings: DoctorFinding[] = [];
  readonly #listed = new Map<string, number>();
  readonly #summaries = new Map<CheckId, string>();

  bad(check: CheckId, sentence: string, position?: string): void {
    this.#add(check, 'bad', sentence, position);
  }

  warn(check: CheckId, sentence: string, position?: string): void {
    this.#add(check, 'warn', sentence, position);
  }

  /** Says more than the standard sentence of a check that found nothing wrong. */
  fine(check: CheckId, sentence: string): void {
    this.#summaries.set(check, sentence);
  }

  /** Something to list that is neither good nor bad. */
  note(check: CheckId, sentence: string, position?: string): void {
    this.#add(check, 'ok', sentence, position);
  }

  has(check: CheckId, verdict: Verdict = 'bad'): boolean {
    return this.#listed.has(`${check} ${verdict}`);
  }

  /** `reached`: the checks that were made; one that was not made says nothing. */
  findings(reached: readonly CheckId[]): DoctorFinding[] {
    return (Object.keys(CHECKS) as CheckId[]).flatMap((check) => {
      const found = this.#findings.filter((finding) => finding.check === check);
      const more = (['bad', 'warn', 'ok'] as const).flatMap((verdict) => this.#unlisted(check, verdict));
      if (found.length > 0) return [...found, ...more];
      if (!reached.includes(check)) return [];
      const sentence = this.#summaries.get(check) ?? CHECKS[check];
      return [{ check, verdict: 'ok', sentence, position: undefined }];
    });
  }

  #add(check: CheckId, verdict: Verdict, sentence: string, position: string | undefined): void {
    const listed = (this.#listed.get(`${check} ${verdict}`) ?? 0) + 1;
    this.#listed.set(`${check} ${verdict}`, listed);
    if (listed <= LISTED) this.#findings.push({ check, verdict, sentence, position });
  }

  #unlisted(check: CheckId, verdict: Verdict): DoctorFinding[] {
    const more = (this.#listed.get(`${check} ${verdict}`) ?? 0) - LISTED;
    return more > 0
      ? [{ check, verdict, sentence: `and ${more} more of this kind`, position: undefined }]
      : [];
  }
}
