/** Deletes files that nothing needs any more: checkpoint parts, log segments and blob files. */
import { join } from 'node:path';
import type { Disk } from '../../kit/env/env.ts';
import type { Background } from './background.ts';
import type { BlobUse } from './blob-use.ts';
import type { Blobs } from './blobs.ts';
import type { Manifest } from './checkpoint/manifest.ts';
import type { Paths } from './layout.ts';
import { readHeader } from './log/frame.ts';
import { listSegments, type Segment } from './log/segments.ts';

export interface RetentionLimits {
  /** How long sealed segments are kept: they are the audit trail. */
  readonly auditMs: number;
  /** Above this size of the log the oldest sealed segments are deleted early. */
  readonly auditBytes: number;
}

/** Which sealed segments are kept for the audit trail. */
export interface AuditBounds {
  /** A segment with a change from this instant on, in brain time, is not too old. */
  readonly keptSince: number;
  readonly bytes: number;
}

/**
 * Deletes the checkpoint parts that no kept manifest lists, and the log segments that lie before both checkpoints and
 * before `indexedUpTo` and are beyond the limits of the audit trail.
 */
export async function dropOldFiles(
  disk: Disk,
  paths: Paths,
  generations: readonly Manifest[],
  indexedUpTo: number,
  audit: AuditBounds,
): Promise<void> {
  const needed = new Set(generations.flatMap(({ parts }) => parts.map(({ name }) => name)));
  for (const name of await disk.list(paths.parts)) {
    if (!needed.has(name)) await disk.remove(join(paths.parts, name));
  }
  const upTo = Math.min(indexedUpTo, ...generations.map(({ seq }) => seq));
  for (const segment of await removable(disk, paths, upTo, audit))
    await disk.remove(join(paths.log, segment.name));
}

async function removable(disk: Disk, paths: Paths, upTo: number, audit: AuditBounds): Promise<Segment[]> {
  const segments = await listSegments(disk, paths.log);
  const sizes = await Promise.all(
    segments.map(async ({ name }) => (await disk.stat(join(paths.log, name)))?.size ?? 0),
  );
  let total = sizes.reduce((sum, size) => sum + size, 0);
  const expired: Segment[] = [];
  for (const [at, segment] of segments.entries()) {
    const next = segments[at + 1];
    if (!next || next.firstSeq - 1 > upTo) break;
    const tooOld = (await startedAt(disk, paths, next)) < audit.keptSince;
    if (!tooOld && total <= audit.bytes) break;
    expired.push(segment);
    total -= sizes[at] as number;
  }
  return expired;
}

async function startedAt(disk: Disk, paths: Paths, segment: Segment): Promise<number> {
  const file = await disk.open(join(paths.log, segment.name), 'read');
  try {
    return readHeader(await file.read(0, 64), 0)?.at ?? Number.POSITIVE_INFINITY;
  } finally {
    await file.close();
  }
}

/** Deletes blob files that no job references any more, neither in memory nor in the history. */
export class BlobRetention {
  readonly #blobs: Blobs;
  readonly #background: Background;
  readonly #use: BlobUse;
  /** Files that the last sweep found unused. A file is deleted when two sweeps in a row find it unused. */
  #unused: ReadonlySet<number> = new Set();

  constructor(blobs: Blobs, background: Background, use: BlobUse) {
    this.#blobs = blobs;
    this.#background = background;
    this.#use = use;
  }

  async sweep(): Promise<void> {
    this.#use.sweep();
    const unused = new Set<number>();
    for (const file of await this.#blobs.files()) {
      if (await this.#isUsed(file)) continue;
      if (this.#unused.has(file)) await this.#blobs.drop(file);
      else unused.add(file);
    }
    this.#unused = unused;
  }

  async #isUsed(file: number): Promise<boolean> {
    return this.#blobs.isInGracePeriod(file) || this.#use.has(file) || this.#background.usesBlobFile(file);
  }
}
