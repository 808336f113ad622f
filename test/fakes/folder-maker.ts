/**
 * Makes data folders frame by frame, so that a test knows where every byte of one came from. The frames and
 * checkpoints are written by the code that writes real ones.
 */
import { join } from 'node:path';
import { State } from '../../src/core/state/state.ts';
import type { Disk } from '../../src/kit/env/env.ts';
import type { Body } from '../../src/model/body.ts';
import { errorInfo } from '../../src/model/errors.ts';
import { type GivenSpec, specOf } from '../../src/model/job-spec.ts';
import {
  accept,
  cancel,
  claim,
  die,
  end,
  FRESH_JOB,
  fail,
  newAttempt,
  redrive,
  retry,
  start,
  succeed,
  wait,
  wake,
} from '../../src/model/moves.ts';
import {
  type AskRecord,
  type AttemptRecord,
  BRAIN_ID,
  type Change,
  type JobRecord,
  type RecordKind,
  type RecordKinds,
  tokenOf,
} from '../../src/model/records.ts';
import { upcast } from '../../src/model/upcast.ts';
import type { TokenCounts } from '../../src/model/usage.ts';
import { type Manifest, NO_CHECKPOINT, writeManifest } from '../../src/stores/journal/checkpoint/manifest.ts';
import { mergeCheckpoint } from '../../src/stores/journal/checkpoint/merge.ts';
import { type Paths, paths, segmentName } from '../../src/stores/journal/layout.ts';
import { encodeChange } from '../../src/stores/journal/log/codec.ts';
import { encodeFrame } from '../../src/stores/journal/log/frame.ts';
import { nested, SPEC } from './engine-kit.ts';
import { MemoryDisk } from './memory-disk.ts';

/** Brain time of everything that is made here. */
export const NOW = 1_800_000_000_000;

export const change = <K extends RecordKind>(
  kind: K,
  id: string,
  after: RecordKinds[K] | null,
  cause = 'test',
): Change => ({ kind, id, after, cause }) as Change;

/** Fields of an ask and of its spec, side by side. */
export type AskFields = Partial<Omit<AskRecord, 'spec'>> & GivenSpec;

export function askOf(id: string, n: number, fields: AskFields = {}): AskRecord {
  const { spec, ...own } = nested(
    fields,
    specOf({ agent: 'anna', type: 'inference', max_tries: 3 }, { ...SPEC }),
  );
  const stored = { v: 2, id, tenant: 'default', n, createdAt: NOW, submittedBy: 'anna', ...own, spec };
  return upcast('ask', stored as never);
}

/** A job in the making: every method returns the changes of one legal step. */
export class JobScript {
  readonly uid: string;
  readonly backend: string;
  job: JobRecord = FRESH_JOB;
  attempt: AttemptRecord | undefined;

  constructor(uid: string, backend = 'b1') {
    this.uid = uid;
    this.backend = backend;
  }

  ask(n: number, fields: AskFields = {}): Change[] {
    this.job = FRESH_JOB;
    this.attempt = undefined;
    return [change('ask', this.uid, askOf(this.uid, n, fields), 'submit')];
  }

  claim(n = this.job.attempt + 1): Change[] {
    return [
      ...this.#move(claim(this.job, n, this.backend)),
      ...this.#try(newAttempt({ job: this.uid, n, backend: this.backend, registry: 'r', epoch: 1, at: NOW })),
    ];
  }

  start(): Change[] {
    return [...this.#try(accept(this.attempt as AttemptRecord, NOW, 1)), ...this.#move(start(this.job, NOW))];
  }

  succeed(result: Body = '"done"'): Change[] {
    return [
      ...this.#try(end(this.attempt as AttemptRecord, NOW, 'succeeded')),
      ...this.#move(succeed(this.job, NOW, result)),
    ];
  }

  /** A try ends badly: another one follows, or none. */
  fail(then: 'retry' | 'die'): Change[] {
    const error = errorInfo('EXECUTION_FAILED');
    const ended = this.#try(end(this.attempt as AttemptRecord, NOW, 'failed', { error }));
    const failed = this.#move(fail(this.job, error));
    const next = then === 'retry' ? retry(this.job, NOW) : die(this.job, NOW, 'failed', error);
    return [...ended, ...failed, ...this.#move(next)];
  }

  /** A try ends by waiting, and the job is queued again. */
  waits(usage?: TokenCounts): Change[] {
    const step = (this.job.wait?.step ?? 0) + 1;
    const record = { step, state: '{}', children: [], needs: 'all', until: NOW } as const;
    return [
      ...this.#try(end(this.attempt as AttemptRecord, NOW, 'waits', { usage }), 'waits'),
      ...this.#move(wait(this.job, record)),
      ...this.#move(wake(this.job, NOW, 'time')),
    ];
  }

  redrive(): Change[] {
    return this.#move(redrive(this.job, NOW));
  }

  /** The redrive of a job that has left memory: its ask comes back first. */
  revive(n: number, fields: AskFields = {}): Change[] {
    const before = this.job;
    const ask = this.ask(n, fields);
    return [...ask, ...this.#move(redrive(before, NOW))];
  }

  cancel(): Change[] {
    return this.#move(cancel(this.job, NOW, errorInfo('CANCELLED')));
  }

  #move(after: JobRecord): Change[] {
    this.job = after;
    return [change('job', this.uid, after)];
  }

  #try(after: AttemptRecord, cause?: string): Change[] {
    this.attempt = after;
    return [change('attempt', tokenOf(this.uid, after.n), after, cause)];
  }
}

export class FolderMaker {
  readonly disk: Disk;
  readonly paths: Paths;
  /** The sequence of the next change. */
  next = 1;
  epoch = 1;
  /** The instant of the next frame. */
  at = NOW;
  chain = 0;
  manifest: Manifest = NO_CHECKPOINT;
  #segment = '';
  #position = 0;

  private constructor(disk: Disk, folder: string) {
    this.disk = disk;
    this.paths = paths(folder);
  }

  static async make(disk: Disk = new MemoryDisk(), folder = '/data'): Promise<FolderMaker> {
    const maker = new FolderMaker(disk, folder);
    const { log, parts, blobs } = maker.paths;
    for (const path of [folder, log, parts, blobs]) await disk.makeFolder(path);
    await maker.roll();
    await maker.add(change('brain', BRAIN_ID, { v: 1, owner: 'o', epoch: 1, attemptFloor: 0 }, 'open'));
    return maker;
  }

  /** The file of the present segment. */
  get segment(): string {
    return join(this.paths.log, this.#segment);
  }

  get position(): number {
    return this.#position;
  }

  /** Adds one frame with these changes. */
  async add(...changes: readonly Change[]): Promise<void> {
    await this.addText(changes.map(encodeChange).join(''), changes.length);
  }

  async addText(text: string, count: number): Promise<void> {
    const { next: firstSeq, epoch, chain } = this;
    const { frame, payloadCrc } = encodeFrame({ firstSeq, count, epoch, at: this.at, chain, text });
    const file = await this.disk.open(this.segment, 'write');
    await file.write(this.#position, frame);
    await file.close();
    this.#position += frame.length;
    this.chain = payloadCrc;
    this.next += count;
  }

  /** Goes on in a new segment. */
  async roll(): Promise<void> {
    this.#segment = segmentName(this.next);
    this.#position = 0;
    await (await this.disk.open(this.segment, 'create')).close();
  }

  /** Zeros behind the last frame, as a segment has that is being written. */
  async preallocate(bytes: number): Promise<void> {
    const file = await this.disk.open(this.segment, 'write');
    await file.truncate(this.#position + bytes);
    await file.close();
  }

  async checkpoint(indexedUpTo = 0): Promise<Manifest> {
    const upTo = this.next - 1;
    await this.roll();
    const order = { base: this.manifest, upTo, indexedUpTo };
    this.manifest = await mergeCheckpoint(this.disk, this.paths, order);
    await writeManifest(this.disk, this.paths, this.manifest);
    return this.manifest;
  }
}

export const newState = (): State =>
  new State({ cancelDeadlineMs: 5000, failureCacheSize: Number.POSITIVE_INFINITY });
