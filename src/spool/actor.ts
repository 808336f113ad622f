/**
 * A process, or a part of one, that works on a spool: an agent, a watchdog, a manager, a brain, a command of a person. It has a
 * folder in `tmp/` for what it is making and for the jobs that it has taken to change them. Its `owner.json` says who it
 * is, and is touched as its heartbeat.
 */
import { join } from 'node:path';
import { type Disk, diskErrorCode } from '../kit/env/env.ts';
import type { Logger } from '../kit/logger.ts';
import { OrchdError } from '../model/errors.ts';
import { isActorId, type Place, takenFolder, type WorkspacePaths, workspacePaths } from './layout.ts';
import type { OwnerRecord } from './owner.ts';
import { isMissing, removeTree, writeNew } from './plain-files.ts';
import type { Spool } from './spool.ts';

export type ActorKind = 'agent' | 'watchdog' | 'manager' | 'person' | 'brain';

export class Actor {
  readonly spool: Spool;
  readonly kind: ActorKind;
  /** The name with a nonce (L3 of layout.ts). */
  readonly id: string;
  readonly logger: Logger;
  /** Folders in `tmp/` of locks that this actor has had, for its next ones (K3 of lock.ts). */
  readonly spareLocks: string[] = [];
  readonly #workspace: WorkspacePaths;
  readonly #nonce: string;
  readonly #slots: number | undefined;
  readonly #takenFolders = new Map<Place, Promise<string>>();
  #temporaries = 0;

  private constructor(spool: Spool, kind: ActorKind, name: string, nonce: string, slots: number | undefined) {
    this.spool = spool;
    this.#slots = slots;
    this.kind = kind;
    this.id = `${name}-${nonce}`;
    this.#nonce = nonce;
    this.#workspace = workspacePaths(spool.paths, this.id);
    this.logger = spool.logger.child({ actor: `${kind}/${this.id}` });
  }

  static async open(spool: Spool, kind: ActorKind, name: string = kind, slots?: number): Promise<Actor> {
    const actor = new Actor(spool, kind, name, spool.env.random.hex(8), slots);
    if (!isActorId(actor.id))
      throw new OrchdError(
        'INVALID_PARAMS',
        `"${name}" is no name of an agent: letters, digits, ".", "_", "-"`,
      );
    await actor.#open();
    return actor;
  }

  /** The folder of an agent's jobs. */
  get jobs(): string {
    return join(this.spool.paths.places['in-progress'], this.id);
  }

  get owner(): OwnerRecord {
    const presence = this.#slots === undefined ? {} : { slots: this.#slots };
    return { ...this.ownerWith(this.#nonce), ...presence };
  }

  ownerWith(nonce: string): OwnerRecord {
    const { hostname, self } = this.spool.host;
    return { hostname, ...self, nonce, actor: this.id };
  }

  /** A path in the folder for what is being made, used by nobody else. */
  temporary(what: string): string {
    return join(this.#workspace.work, `${what}-${++this.#temporaries}`);
  }

  /** The folder for jobs that were taken from a place, made where it does not exist. */
  takenFrom(place: Place): Promise<string> {
    let folder = this.#takenFolders.get(place);
    if (!folder) {
      folder = this.#makeTakenFolder(place);
      this.#takenFolders.set(place, folder);
      folder.catch(() => this.#takenFolders.delete(place));
    }
    return folder;
  }

  /** The heartbeat. `fenced`: somebody has found this actor dead, and removed its folder. */
  async touch(): Promise<'touched' | 'fenced'> {
    try {
      await this.spool.env.disk.touch(this.#workspace.owner);
      return 'touched';
    } catch (error) {
      if (isMissing(error)) return 'fenced';
      throw error;
    }
  }

  /** Removes the folders of the actor, unless there are jobs in them: a watchdog moves those on. */
  async close(): Promise<void> {
    const { disk } = this.spool.env;
    if (this.kind === 'agent' && !(await removedIfEmpty(disk, this.jobs))) return;
    await removeWorkspace(this.spool, this.id);
  }

  async #open(): Promise<void> {
    const { env, syncs, paths } = this.spool;
    const { folder, work, owner } = this.#workspace;
    await env.disk.makeNewFolder(folder);
    // Not synced: after a power cut the actor is dead in any case.
    await writeNew(env.disk, owner, textOf(this.owner), { isSynced: false });
    await env.disk.makeNewFolder(work);
    if (this.kind === 'agent') await env.disk.makeNewFolder(this.jobs);
    // Jobs are moved into these folders, and must not be lost with them.
    await syncs.sync(paths.tmp, paths.places['in-progress']);
    await env.disk.syncFolder(folder);
  }

  async #makeTakenFolder(place: Place): Promise<string> {
    const { disk } = this.spool.env;
    const folder = takenFolder(this.#workspace, place);
    await disk.makeNewFolder(folder);
    await disk.syncFolder(this.#workspace.folder);
    return folder;
  }
}

export const textOf = (record: object): string => `${JSON.stringify(record)}\n`;

/** Removes a folder; false where something is in it. */
export const removedIfEmpty = (disk: Disk, folder: string): Promise<boolean> =>
  unlessFilled(() => disk.removeFolder(folder));

/**
 * Removes the folder of an actor in `tmp/`; false where jobs are in it, which stay with its `owner.json`, or where an actor
 * that is not dead after all goes on filling it.
 */
export async function removeWorkspace({ env: { disk }, paths }: Spool, actor: string): Promise<boolean> {
  const workspace = workspacePaths(paths, actor);
  if (!(await unlessFilled(() => removeTree(disk, workspace.work)))) return false;
  for (const place of Object.keys(paths.places) as Place[])
    if (!(await removedIfEmpty(disk, takenFolder(workspace, place)))) return false;
  await disk.remove(workspace.owner);
  return removedIfEmpty(disk, workspace.folder);
}

async function unlessFilled(remove: () => Promise<void>): Promise<boolean> {
  try {
    await remove();
    return true;
  } catch (error) {
    if (['ENOTEMPTY', 'EEXIST'].includes(diskErrorCode(error) ?? '')) return false;
    throw error;
  }
}
