/**
 * One examination of a data folder, check by check; the rules for all checks are in doctor.ts.
 */
import type { JobBundle } from '../../../core/ports/store.ts';
import { type Disk, diskErrorCode } from '../../../kit/env/env.ts';
import { stableHash } from '../../../kit/hash.ts';
import { OrchdError } from '../../../model/errors.ts';
import { logOwner } from '../../../model/records.ts';
import { JOB_STATES, type JobState } from '../../../model/states.ts';
import { isEnded, type Records } from '../../records.ts';
import { endedInLog } from '../history/rebuild.ts';
import { FORMAT, type Paths } from '../layout.ts';
import { listSegments } from '../log/segments.ts';
import { refuseOtherIndex, seenByIndex } from '../lost-end.ts';
import { type RecoveredFolder, readRecords } from '../recover.ts';
import { isUnfinished } from '../unfinished.ts';
import { BlobCheck } from './blobs.ts';
import { compareCharges } from './charges.ts';
import { examineGeneration, type Generation } from './checkpoint.ts';
import { reportCopies } from './copies.ts';
import { listOrphans } from './files.ts';
import { compareHistory, type OpenHistory, openHistory } from './history.ts';
import { reachFrom, type SegmentSurvey, surveyLog } from './log.ts';
import { Replay } from './replay.ts';
import {
  CHECKS,
  type CheckId,
  type DoctorFinding,
  type FolderFacts,
  Report,
  type Verdict,
} from './report.ts';
import { findPrefix, type SalvagePlan, type SalvagePrefix, viewOf } from './salvage.ts';
import { checkSessions } from './sessions.ts';
import { stateHash } from './state-hash.ts';
import { type RecoveryBase, recoverFrom } from './view.ts';

export interface Diagnosis {
  readonly folder: string;
  /** The worst of the findings. */
  readonly verdict: Verdict;
  /** False where the path is no data folder; that is then the only finding. */
  readonly isDataFolder: boolean;
  /** A process holds the folder, so a fault at the end of the log may be a write in flight. */
  readonly inUse: boolean;
  readonly findings: readonly DoctorFinding[];
  readonly facts: FolderFacts;
  /** What `salvage` would write to a new folder; undefined if nothing can be salvaged. */
  readonly salvage: SalvagePlan | undefined;
}

export interface ExamineOptions {
  /** Determines whether a process holds the lock at this path. */
  readonly isHeld?: (lock: string) => Promise<boolean>;
}

async function isLockedNow(disk: Disk, lock: string): Promise<boolean> {
  const held = await disk.lock(lock);
  await held?.release();
  return held === undefined;
}

/** The checks that need no record to be decoded; only these are made where records are newer than this program. */
const CHECKS_OF_NEWER_RECORDS: readonly CheckId[] = [
  'folder',
  'lock',
  'log.order',
  'log.frames',
  'log.chain',
  'start',
];

export class Examination {
  readonly #disk: Disk;
  readonly #paths: Paths;
  readonly #isHeld: (lock: string) => Promise<boolean>;
  readonly #report = new Report();
  inUse = false;
  /** The intact prefix of the folder; set by run() where there is one. */
  prefix: SalvagePrefix | undefined;
  #records: Records | undefined;
  /** What a start would recover; undefined where it would be refused. */
  #recovered: RecoveredFolder | undefined;
  /** The incomplete write at the end of the log. */
  #tornTail: { readonly why: string; readonly position: string } | undefined;
  #plan: SalvagePlan | undefined;
  #generations: Generation[] = [];
  #surveys: SegmentSurvey[] = [];

  constructor(disk: Disk, where: Paths, options: ExamineOptions) {
    this.#disk = disk;
    this.#paths = where;
    this.#isHeld = options.isHeld ?? ((lock) => isLockedNow(disk, lock));
  }

  async run(): Promise<Diagnosis> {
    if (!(await this.#isDataFolder())) return this.#diagnosis(['folder'], false);
    await this.#checkLock();
    await this.#readCheckpoints();
    await this.#readLog();
    const isKnown = !this.#report.has('format');
    if (isKnown) this.prefix = findPrefix(this.#generations, this.#surveys);
    await this.#checkStart();
    // Records of a newer version can be neither checked nor salvaged.
    if (!isKnown) return this.#diagnosis(CHECKS_OF_NEWER_RECORDS);
    await this.#checkReplay();
    await this.#checkBodies();
    return this.#diagnosis(Object.keys(CHECKS) as CheckId[]);
  }

  async #isDataFolder(): Promise<boolean> {
    const { folder, log, manifest, lock } = this.#paths;
    const stat = await this.#disk.stat(folder);
    if (!stat?.isFolder) {
      this.#report.bad('folder', stat ? 'it is a file, not a folder' : 'there is no such folder');
      return false;
    }
    for (const path of [log, manifest, lock]) if (await this.#disk.stat(path)) return true;
    this.#report.bad('folder', 'it is not a data folder: it has neither a log nor a checkpoint');
    return false;
  }

  async #checkLock(): Promise<void> {
    const { lock } = this.#paths;
    if (!(await this.#disk.stat(lock))) return;
    try {
      this.inUse = await this.#isHeld(lock);
    } catch (error) {
      this.#report.warn(
        'lock',
        `whether a process holds it could not be determined: ${(error as Error).message}`,
      );
      return;
    }
    if (this.inUse) {
      const sentence = 'a process holds it: a fault at the end of the log may be a write in flight';
      this.#report.warn('lock', sentence, 'lock');
    }
  }

  async #readCheckpoints(): Promise<void> {
    for (const check of ['checkpoint', 'checkpoint.previous'] as const) {
      const generation = await examineGeneration(this.#disk, this.#paths, check, this.#report);
      if (generation) this.#generations.push(generation);
    }
    if (this.#generations[0]?.check === 'checkpoint.previous' && !this.#report.has('checkpoint')) {
      this.#report.fine('checkpoint', 'the last checkpoint was not finished: orchd uses the previous one');
    }
    this.#report.fine('format', `format ${this.#generations[0]?.manifest.format ?? FORMAT}`);
  }

  async #readLog(): Promise<void> {
    const first = (await listSegments(this.#disk, this.#paths.log))[0];
    const replay = new Replay(this.#report, this.#generations, first?.firstSeq === 1);
    this.#surveys = await surveyLog(this.#disk, this.#paths, replay);
    for (const survey of this.#surveys) this.#reportSurvey(survey);
    replay.finish(this.#isWhole);
    this.#report.fine('log.frames', `${replay.frames} frames match their checksums`);
    this.#report.fine('records', `${replay.changes} changes can be read`);
    for (const generation of this.#generations) this.#checkLogAfter(generation);
  }

  #reportSurvey(survey: SegmentSurvey): void {
    const { name, fault, linkFault } = survey;
    if (linkFault) this.#report.bad(linkFault.check, linkFault.why, `log/${name}:${linkFault.position}`);
    if (!fault) return;
    const position = `log/${name}:${fault.position}`;
    const isLast = survey === this.#surveys.at(-1);
    if (fault.torn && isLast) {
      this.#tornTail = { why: fault.why, position };
    } else if (this.inUse && isLast) {
      this.#report.warn(fault.check, `${fault.why}; this may be a write in flight`, position);
    } else {
      this.#report.bad(fault.torn ? 'log.frames' : fault.check, fault.why, position);
    }
  }

  /** A checkpoint is usable only together with the log after it. */
  #checkLogAfter({ check, manifest }: Generation): void {
    const { upTo, taken } = reachFrom(this.#surveys, manifest.seq, manifest.chain);
    if (taken.length === 0) {
      const sentence = `the log after change ${manifest.seq} is missing, so this checkpoint cannot be used`;
      this.#report.bad(check === 'checkpoint' ? 'log.order' : check, sentence, 'log');
    } else if (check === 'checkpoint.previous' && upTo < this.#reach) {
      const sentence = `the log after it is damaged: it reaches change ${upTo} only`;
      this.#report.bad(check, sentence, `log/${taken.at(-1)?.name}`);
    }
  }

  /** The last change that can be recovered, from whichever base. */
  get #reach(): number {
    const reaches = this.#generations
      .filter(({ contents }) => contents)
      .map(({ manifest }) => reachFrom(this.#surveys, manifest.seq, manifest.chain).upTo);
    return Math.max(0, reachFrom(this.#surveys, 0, 0).upTo, ...reaches);
  }

  async #checkStart(): Promise<void> {
    if (await isUnfinished(this.#disk, this.#paths)) {
      const sentence =
        'orchd refuses to start: a move into this folder was not finished; run `orchd migrate` again';
      this.#report.bad('start', sentence, 'moving.json');
    }
    try {
      const recovered = await readRecords(this.#disk, this.#paths);
      const { fallback } = recovered;
      this.#recovered = recovered;
      this.#records = recovered.records;
      if (fallback) this.#report.warn('start', `orchd starts from the previous checkpoint: ${fallback}`);
    } catch (error) {
      if (!(error instanceof OrchdError) && diskErrorCode(error) !== undefined) throw error;
      this.#reportRefusal(error as Error);
    }
    await reportCopies(this.#disk, this.#paths.folder, this.#report);
    if (this.prefix) await this.#makePlan(this.prefix);
  }

  #reportRefusal(error: Error): void {
    const position = error instanceof OrchdError ? error.details.position : undefined;
    this.#report[this.inUse ? 'warn' : 'bad']('start', `orchd refuses to start: ${error.message}`, position);
  }

  async #makePlan({ base, upTo, position, lost }: SalvagePrefix): Promise<void> {
    const view = viewOf(this.#disk, this.#paths, this.prefix as SalvagePrefix);
    const records = this.#records ?? (await recoverFrom(view, this.#paths, base));
    this.#records = records;
    const unknownYet = { missing: 0, ended: 0, bodies: 0 };
    this.#plan = { base, upTo, position, jobs: countJobs(records), lost: { ...lost, ...unknownYet } };
  }

  #addLoss(lost: Partial<SalvagePlan['lost']>): void {
    if (this.#plan) this.#plan = { ...this.#plan, lost: { ...this.#plan.lost, ...lost } };
  }

  /** Recovery must give the same state from every base, and a second time from the same one. */
  async #checkReplay(): Promise<void> {
    if (this.inUse) {
      this.#report.note('replay', 'not compared while a process writes to the log');
      return;
    }
    if (this.#report.has('start')) {
      this.#report.note('replay', 'not compared, since the log cannot be replayed to its end');
      return;
    }
    const recovered = this.#records as Records;
    const { records: again } = await readRecords(this.#disk, this.#paths);
    if (stateHash(again) !== stateHash(recovered)) {
      this.#report.bad('replay', 'recovering twice gives two different states');
    }
    const bases = this.#completeBases();
    for (const base of bases.length < 2 ? [] : bases) {
      const other = await recoverFrom(this.#disk, this.#paths, base);
      if (agreeOnLiveRecords(recovered, other)) continue;
      const from = base === 'log' ? 'the log from its beginning' : `${base} and the log after it`;
      this.#report.bad(
        'replay',
        `recovering from ${from} gives another state than the one orchd starts with`,
      );
    }
  }

  /** The bases from which recovery reaches the end of the log. */
  #completeBases(): RecoveryBase[] {
    const whole = this.#generations.filter(({ contents }) => contents);
    const bases: { base: RecoveryBase; seq: number; chain: number }[] = whole.map(({ check, manifest }) => ({
      base: check,
      ...manifest,
    }));
    return [...bases, { base: 'log' as const, seq: 0, chain: 0 }]
      .filter(({ seq, chain }) => reachFrom(this.#surveys, seq, chain).upTo === this.#reach)
      .map(({ base }) => base);
  }

  async #checkBodies(): Promise<void> {
    const blobs = new BlobCheck(this.#disk, this.#paths.blobs, this.#report);
    const history = await openHistory(this.#disk, this.#paths, this.#report, this.inUse);
    try {
      for (const bundle of this.#records?.jobs.values() ?? []) {
        const ended = isEnded(bundle);
        // Jobs up to the watermark are checked through the index, from which they may have been purged.
        if (ended && history && bundle.seq <= history.watermark) continue;
        await blobs.checkJob(bundle.uid, bundle.ask, bundle.job, ended && !history ? 'warn' : 'bad');
      }
      await checkSessions(this.#records, history, blobs, this.#report);
      await this.#checkEnd(history);
      if (this.prefix) await this.#checkEnded(viewOf(this.#disk, this.#paths, this.prefix), history, blobs);
      this.#addLoss({ bodies: blobs.lost });
      this.#report.fine('blobs', `${blobs.checked} bodies match their checksums`);
      await listOrphans(this.#disk, this.#paths, this.#generations, await blobs.unusedFiles(), this.#report);
    } finally {
      await blobs.close();
      history?.index.close();
    }
  }

  /**
   * Compares the end of the log with what the index has seen of it, as a start does. An incomplete last write is harmless
   * only where the index is not ahead of it: a power cut tears writes that were not acknowledged yet.
   */
  async #checkEnd(history: OpenHistory | undefined): Promise<void> {
    const missing = history && !this.inUse ? Math.max(0, seenByIndex(history) - this.#lastSeq) : 0;
    if (this.#tornTail) {
      const { why, position } = this.#tornTail;
      if (missing > 0) this.#report.bad('log.tail', `the log was cut off (${why})`, position);
      else {
        const sentence = `the last write is incomplete (${why}), as a power cut leaves it; nothing shows that it was acknowledged`;
        this.#report.note('log.tail', sentence, position);
      }
    }
    if (!history || this.inUse || !this.#isWhole) return;
    if (missing > 0) {
      const sentence = `the index has seen change ${seenByIndex(history)}, but the log ends with ${this.#lastSeq}: the end of the log is missing, at least ${missing} acknowledged changes`;
      this.#report.bad('history', sentence, 'history.sqlite');
      this.#addLoss({ missing });
    }
    if (!this.#recovered) return;
    try {
      await refuseOtherIndex(this.#disk, this.#paths, this.#recovered, history);
    } catch (error) {
      if (!(error instanceof OrchdError)) throw error;
      this.#reportRefusal(error);
    }
  }

  /** Checks the bodies of jobs that have left memory: those in the index, or without an index those in the log. */
  async #checkEnded(view: Disk, history: OpenHistory | undefined, blobs: BlobCheck): Promise<void> {
    if (!history) {
      await endedInLog(view, this.#paths, async (bundles) => {
        for (const { uid, ask, job } of bundles) {
          if (!this.#records?.jobs.has(uid)) await blobs.checkJob(uid, ask, job, 'warn');
        }
      });
      return;
    }
    const scope = {
      lastSeq: this.#lastSeq,
      tenants: new Set([...(this.#records?.jobs.values() ?? [])].map(({ ask }) => ask.tenant)),
      onEntry: ({ uid, ask, job }: JobBundle) => blobs.checkJob(uid, ask, job, 'bad'),
    };
    const ended = await compareHistory(view, this.#paths, history, scope, this.#report);
    this.#addLoss({ ended });
    await compareCharges(view, this.#paths, history, this.#records, this.#report);
  }

  get #isWhole(): boolean {
    return this.#surveys.every(({ fault, linkFault }) => !(fault && !fault.torn) && !linkFault);
  }

  get #lastSeq(): number {
    return Math.max(
      0,
      ...this.#surveys.map(({ nextSeq }) => nextSeq - 1),
      ...this.#generations.map(({ manifest }) => manifest.seq),
    );
  }

  #diagnosis(performed: readonly CheckId[], isDataFolder = true): Diagnosis {
    const findings = this.#report.findings(performed);
    const worst = (['bad', 'warn'] as const).find((each) => findings.some(({ verdict }) => verdict === each));
    return {
      folder: this.#paths.folder,
      verdict: worst ?? 'ok',
      isDataFolder,
      inUse: this.inUse,
      findings,
      facts: this.#facts(),
      salvage: this.#plan,
    };
  }

  #facts(): FolderFacts {
    return {
      owner: this.#records?.brain && logOwner(this.#records.brain),
      epoch: this.#records?.brain?.epoch,
      lastSeq: this.#lastSeq,
      checkpointSeq: this.#generations[0]?.manifest.seq,
      segments: this.#surveys.length,
      logBytes: this.#surveys.reduce((sum, { goodBytes }) => sum + goodBytes, 0),
      jobs: this.#records && countJobs(this.#records),
    };
  }
}

/**
 * True where two recoveries of one folder agree. A checkpoint drops indexed ended jobs and expired failures, and the
 * folder does not record when it did, so the recovery from the older base may contain more of these.
 */
function agreeOnLiveRecords(records: Records, older: Records): boolean {
  const scope = { withoutEnded: true, failuresAt: Number.POSITIVE_INFINITY };
  if (stateHash(records, scope) !== stateHash(older, scope)) return false;
  return [...records.ofKind('failure')].every(
    ({ id, after }) => stableHash(after) === stableHash(older.others.get(`failure/${id}`)?.after),
  );
}

function countJobs({ jobs }: Records): Record<JobState, number> {
  const counts = Object.fromEntries(JOB_STATES.map((state) => [state, 0])) as Record<JobState, number>;
  for (const { job } of jobs.values()) counts[job.state]++;
  return counts;
}
