/**
 * Who has a lock, or is an actor, and whether that process still lives. A process of this machine and this pid namespace
 * is asked for by its pid and start time. Any other is judged by its heartbeat: a file of it that it touches.
 *
 * O1  A process that cannot be asked for counts as dead when one and the same process of ours has seen its heartbeat
 *     unchanged for the whole of `foreignLockTtlMs`, by a clock that only grows. So no wall clock is compared with
 *     another, and one that is set wrong makes nobody dead.
 * O2  The exception is what this machine has left behind when it was restarted: a heartbeat from before the restart whose
 *     owner has the same host name and another boot, or cannot be read, because a power cut has emptied its file.
 */
import type { Disk } from '../kit/env/env.ts';
import type { Host } from '../kit/process/host.ts';
import { isNamespacedIdentity, type NamespacedIdentity } from '../kit/process/identity.ts';
import { readPlainRecord } from './plain-files.ts';

/** `owner.json` */
export interface OwnerRecord extends NamespacedIdentity {
  readonly hostname: string;
  /** Different for every lock and every actor. */
  readonly nonce: string;
  /** The id of the actor. */
  readonly actor?: string;
  /** How many jobs an agent runs at once. */
  readonly slots?: number;
}

export const isOwnerRecord = (value: unknown): value is OwnerRecord => {
  const { hostname, nonce } = (value ?? {}) as Partial<OwnerRecord>;
  return isNamespacedIdentity(value) && typeof hostname === 'string' && typeof nonce === 'string';
};

/** What a folder says about its owner. */
export interface OwnerEvidence {
  readonly owner: OwnerRecord | undefined;
  /** There is an `owner.json`, readable or not. */
  readonly hasFile: boolean;
  /** The newest time of what the owner touches, in ms since 1970. */
  readonly heartbeatMs: number;
}

/** `unheard`: only its heartbeat can tell (O1). */
export type Verdict = 'alive' | 'dead' | 'unheard';

export function judgeOwner({ owner, hasFile, heartbeatMs }: OwnerEvidence, host: Host): Verdict {
  const isBeforeBoot = heartbeatMs < host.bootedAtMs();
  if (!owner) return hasFile && isBeforeBoot ? 'dead' : 'unheard';
  const life = host.lifeOf(owner);
  if (life === 'alive' || life === 'dead') return life;
  return life === 'other boot' && owner.hostname === host.hostname && isBeforeBoot ? 'dead' : 'unheard';
}

/** Reads the evidence in a folder with an `owner.json`; undefined without the folder, and where a link has its name. */
export async function readEvidence(
  disk: Disk,
  folder: string,
  file: string,
): Promise<OwnerEvidence | undefined> {
  const [ofFolder, ofFile] = [await disk.lstat(folder), await disk.lstat(file)];
  if (ofFolder?.kind !== 'folder') return undefined;
  const owner = ofFile?.kind === 'file' ? await readPlainRecord(disk, file, isOwnerRecord) : undefined;
  const heartbeatMs = Math.max(ofFolder.modifiedMs, ofFile?.modifiedMs ?? Number.NEGATIVE_INFINITY);
  return { owner, hasFile: ofFile !== undefined, heartbeatMs };
}

/** Remembers since when each heartbeat is unchanged (O1). */
export class Heartbeats {
  readonly #monotonic: () => number;
  #known = new Map<string, { readonly heartbeatMs: number; readonly since: number }>();
  #next = new Map<string, { readonly heartbeatMs: number; readonly since: number }>();

  constructor(monotonic: () => number) {
    this.#monotonic = monotonic;
  }

  /** Milliseconds for which a heartbeat is known to be unchanged; `key` names its owner. */
  silentMs(key: string, heartbeatMs: number): number {
    const now = this.#monotonic();
    const known = this.#known.get(key);
    const entry = known?.heartbeatMs === heartbeatMs ? known : { heartbeatMs, since: now };
    this.#known.set(key, entry);
    this.#next.set(key, entry);
    return now - entry.since;
  }

  /** Called after all that exist were asked about: forgets the others. */
  forgetOthers(): void {
    this.#known = this.#next;
    this.#next = new Map();
  }
}
