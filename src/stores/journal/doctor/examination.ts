/**
 * One look at a data folder, check by check (doctor.ts says what holds for all of them).
 */
import type { JobBundle } from '../../../core/ports/store.ts';
import { type Disk, diskErrorCode } from '../../../kit/env/env.ts';
import { stableHash } from '../../../kit/hash.ts';
import { OrchdError } from '../../../model/errors.ts';
import { JOB_STATES, type JobState } from '../../../model/states.ts';
import { isEnded, type Records } from '../../records.ts';
import { endedInLog } from '../history/rebuild.ts';
import { FORMAT, type Paths } from '../layout.ts';
import { listSegments } from '../log/segments.ts';
import { readRecords } from '../recover.ts';
import { isUnfinished } from '../unfinished.ts';
import { BlobCheck } from './blobs.ts';
import { examineGeneration, type Generation } from './checkpoint.ts';
import { listOrphans } from './files.ts';
import { checkWatermark, compareHistory, type OpenHistory, openHistory } from './history.ts';
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
import { findPrefix, type Prefix, type SalvagePlan, viewOf } from './salvage.ts';
import { stateHash } from './state-hash.ts';
import { type Base, rebuild } from './view.ts';

export interface Diagnosis {
  readonly folder: string;
  /** The worst of the findings. */
  readonly verdict: Verdict;
  /** False where there is no data folder at all: then there is nothing but that to say. */
  readonly isDataFolder: boolean;
  /** A brain is running: what is said of the tail of the log may be a write in flight. */
  readonly inUse: boolean;
  readonly findings: readonly DoctorFinding[];
  readonly facts: FolderFacts;
  /** What could be saved to a new folder; undefined where nothing could. */
  readonly salvage: SalvagePlan | undefined;
}

export interface ExamineOptions {
  /** Whether a process holds the folder that has this lock. */
  readonly isHeld?: (lock: string) => Promise<boolean>;
}

async function isLockedNow(disk: Disk, lock: string): Promise<boolean> {
  const held = await disk.lock(lock);
  await held?.release();
  return held === undefined;
}

/** What can be said of a folder whose records are newer than this program. */
const UNDERSTOOD_ALWAYS: readonly CheckId[] = [
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
  /** What could be saved, once found. */
  prefix: Prefix | undefined;
  #records: Records | undefined;
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
    // Half-understood records are not judged, and nothing of them is saved.
    if (!isKnown) return this.#diagnosis(UNDERSTOOD_ALWAYS);
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
      this.#report.warn('lock', `it cannot be said whether a process holds it: ${(error as Error).message}`);
      return;
    }
    if (this.inUse) {
      const sentence = 'a process holds it: what is said of the end of the log may be a write in flight';
      this.#report.warn('lock', sentence, 'lock');
    }
  }

  async #readCheckpoints(): Promise<void> {
    for (const check of ['checkpoint', 'checkpoint.previous'] as const) {
      const generation = await examineGeneration(this.#disk, this.#paths, check, this.#report);
      if (generation) this.#generations.push(generation);
    }
    if (this.#generations[0]?.check === 'checkpoint.previous' && !this.#report.has('checkpoint')) {
      this.#report.fine('checkpoint', 'a new one was not finished: the previous one counts');
    }
    this.#report.fine('format', `format ${this.#generations[0]?.manifest.format ?? FORMAT}`);
  }

  async #readLog(): Promise<void> {
    const first = (await listSegments(this.#disk, this.#paths.log))[0];
    const replay = new Replay(this.#report, this.#generations, first?.firstSeq === 1);
    this.#surveys = await surveyLog(this.#disk, this.#paths, replay);
    for (const survey of this.#surveys) this.#judge(survey);
    replay.finish(this.#isWhole);
    this.#report.fine('log.frames', `${replay.frames} frames match their checksums`);
    this.#report.fine('records', `${replay.changes} changes can be read`);
    for (const generation of this.#generations) this.#checkGoesOn(generation);
  }

  #judge(survey: SegmentSurvey): void {
    const { name, fault, linkFault } = survey;
    if (linkFault) this.#report.bad(linkFault.check, linkFault.why, `log/${name}:${linkFault.position}`);
    if (!fault) return;
    const position = `log/${name}:${fault.position}`;
    const isLast = survey === this.#surveys.at(-1);
    if (fault.torn && isLast) {
      this.#report.note(
        'log.tail',
        `a write was cut short (${fault.why}); it was never acknowledged`,
        position,
      );
    } else if (this.inUse && isLast) {
      this.#report.warn(fault.check, `${fault.why}; this may be a write in flight`, position);
    } else {
      this.#report.bad(fault.torn ? 'log.frames' : fault.check, fault.why, position);
    }
  }

  /** A checkpoint is of use only with the log that follows it. */
  #checkGoesOn({ check, manifest }: Generation): void {
    const { upTo, taken } = reachFrom(this.#surveys, manifest.seq, manifest.chain);
    if (taken.length === 0) {
      const sentence = `the log after change ${manifest.seq} is missing, so that this checkpoint cannot be used`;
      this.#report.bad(check === 'checkpoint' ? 'log.order' : check, sentence, 'log');
    } else if (check === 'checkpoint.previous' && upTo < this.#reach) {
      const sentence = `the log behind it is damaged: it leads to change ${upTo} only`;
      this.#report.bad(check, sentence, `log/${taken.at(-1)?.name}`);
    }
  }

  /** The last change that any whole checkpoint, or the log alone, leads to. */
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
      const { fallback, records } = await readRecords(this.#disk, this.#paths);
      this.#records = records;
      if (fallback) this.#report.warn('start', `orchd starts from the previous checkpoint: ${fallback}`);
    } catch (error) {
      if (!(error instanceof OrchdError) && diskErrorCode(error) !== undefined) throw error;
      const { message } = error as Error;
      const position = error instanceof OrchdError ? error.details.position : undefined;
      this.#report[this.inUse ? 'warn' : 'bad']('start', `orchd refuses to start: ${message}`, position);
    }
    if (this.prefix) await this.#makePlan(this.prefix);
  }

  async #makePlan({ base, upTo, position, lost }: Prefix): Promise<void> {
    const view = viewOf(this.#disk, this.#paths, this.prefix as Prefix);
    const records = this.#records ?? (await rebuild(view, this.#paths, base));
    this.#records = records;
    this.#plan = { base, upTo, position, jobs: countJobs(records), lost: { ...lost, ended: 0 } };
  }

  /** The same state must come out of the log whichever checkpoint it is replayed from. */
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
    const origins = this.#origins();
    if (origins.length < 2) return;
    for (const base of origins) {
      const other = await rebuild(this.#disk, this.#paths, base);
      if (sameLife(recovered, other)) continue;
      const from = base === 'log' ? 'the log from its beginning' : `${base} and the log behind it`;
      this.#report.bad('replay', `${from} gives another state than the one orchd starts with`);
    }
  }

  /** Everything that leads to the end of the log. */
  #origins(): Base[] {
    const whole = this.#generations.filter(({ contents }) => contents);
    const bases: { base: Base; seq: number; chain: number }[] = whole.map(({ check, manifest }) => ({
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
        // The index speaks for the ended jobs that it was given: it may have forgotten them on purpose.
        if (ended && history && bundle.seq <= history.watermark) continue;
        await blobs.job(bundle.uid, bundle.ask, bundle.job, ended && !history ? 'warn' : 'bad');
      }
      if (history && !this.inUse && this.#isWhole) checkWatermark(history, this.#lastSeq, this.#report);
      if (this.prefix) await this.#checkEnded(viewOf(this.#disk, this.#paths, this.prefix), history, blobs);
      this.#report.fine('blobs', `${blobs.checked} bodies match their checksums`);
      await listOrphans(this.#disk, this.#paths, this.#generations, await blobs.unused(), this.#report);
    } finally {
      await blobs.close();
      history?.index.close();
    }
  }

  /** Jobs that have left memory: the index has them, or will have when it is made from the log. */
  async #checkEnded(view: Disk, history: OpenHistory | undefined, blobs: BlobCheck): Promise<void> {
    if (!history) {
      await endedInLog(view, this.#paths, async (bundles) => {
        for (const { uid, ask, job } of bundles) {
          if (!this.#records?.jobs.has(uid)) await blobs.job(uid, ask, job, 'warn');
        }
      });
      return;
    }
    const scope = {
      lastSeq: this.#lastSeq,
      tenants: new Set([...(this.#records?.jobs.values() ?? [])].map(({ ask }) => ask.tenant)),
      onEntry: ({ uid, ask, job }: JobBundle) => blobs.job(uid, ask, job, 'bad'),
    };
    const ended = await compareHistory(view, this.#paths, history, scope, this.#report);
    if (this.#plan) this.#plan = { ...this.#plan, lost: { ...this.#plan.lost, ended } };
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

  #diagnosis(reached: readonly CheckId[], isDataFolder = true): Diagnosis {
    const findings = this.#report.findings(reached);
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
      owner: this.#records?.brain?.owner,
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
 * Whether two recoveries of one folder agree. Ended jobs and entries of the failure cache leave with a checkpoint
 * when their time has come, which the folder does not tell: the older base may know more of them.
 */
function sameLife(records: Records, older: Records): boolean {
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
