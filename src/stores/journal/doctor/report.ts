/** The doctor's report: at least one finding per performed check, each with a verdict, a sentence and, where known, a position. */
import type { JobState } from '../../../model/states.ts';

/** `ok`: nothing is wrong. `warn`: worth knowing, but nothing is damaged. `bad`: damaged or inconsistent. */
export type Verdict = 'ok' | 'warn' | 'bad';

/** Every check, in the order of the report, with its default sentence where nothing is wrong; fine() replaces it. */
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
  jobs: 'jobs and attempts match, and exactly the ended jobs have an end time',
  replay: 'checkpoint and log agree, and recovering twice gives the same state',
  blobs: 'every body that a job references exists and matches its checksum',
  history: 'the index of ended jobs agrees with the log',
  charges: 'what every closed attempt used and cost is in the ledger',
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

/** Figures by which a person recognizes the folder. */
export interface FolderFacts {
  readonly owner: string | undefined;
  readonly epoch: number | undefined;
  readonly lastSeq: number;
  readonly checkpointSeq: number | undefined;
  readonly segments: number;
  readonly logBytes: number;
  readonly jobs: Readonly<Record<JobState, number>> | undefined;
}

/** At most this many findings of one check and verdict are listed, the rest is counted: damage can repeat a million times. */
const MAX_LISTED = 20;

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

  /** Replaces the standard sentence of a check; it is used only where the check has no finding. */
  fine(check: CheckId, sentence: string): void {
    this.#summaries.set(check, sentence);
  }

  /** Adds a finding with the verdict `ok`. */
  note(check: CheckId, sentence: string, position?: string): void {
    this.#add(check, 'ok', sentence, position);
  }

  has(check: CheckId, verdict: Verdict = 'bad'): boolean {
    return this.#listed.has(`${check} ${verdict}`);
  }

  /** All findings. A check without one is reported as ok where it is in `performed`, and left out otherwise. */
  findings(performed: readonly CheckId[]): DoctorFinding[] {
    return (Object.keys(CHECKS) as CheckId[]).flatMap((check) => {
      const found = this.#findings.filter((finding) => finding.check === check);
      const more = (['bad', 'warn', 'ok'] as const).flatMap((verdict) => this.#unlisted(check, verdict));
      if (found.length > 0) return [...found, ...more];
      if (!performed.includes(check)) return [];
      const sentence = this.#summaries.get(check) ?? CHECKS[check];
      return [{ check, verdict: 'ok', sentence, position: undefined }];
    });
  }

  #add(check: CheckId, verdict: Verdict, sentence: string, position: string | undefined): void {
    const listed = (this.#listed.get(`${check} ${verdict}`) ?? 0) + 1;
    this.#listed.set(`${check} ${verdict}`, listed);
    if (listed <= MAX_LISTED) this.#findings.push({ check, verdict, sentence, position });
  }

  #unlisted(check: CheckId, verdict: Verdict): DoctorFinding[] {
    const more = (this.#listed.get(`${check} ${verdict}`) ?? 0) - MAX_LISTED;
    return more > 0
      ? [{ check, verdict, sentence: `and ${more} more of this kind`, position: undefined }]
      : [];
  }
}
