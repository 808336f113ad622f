/**
 * Runs the commands of a brain, and takes over those whose keeper has died. It runs in a process of its own, so that
 * neither a command nor its output depends on the brain: it goes on until its last command has ended.
 */

import fs from 'node:fs';
import { dirname } from 'node:path';
import { crashpoint } from '../../../kit/crashpoint.ts';
import { makePrivateFolder, openPrivate } from '../../../kit/env/private-files.ts';
import { realEnv } from '../../../kit/env/real.ts';
import {
  identityOf,
  isProcessIdentity,
  isThisBoot,
  type ProcessIdentity,
} from '../../../kit/process/identity.ts';
import { isMarkedWith, type Mark } from '../../../kit/process/marked.ts';
import { readRecord } from '../../../kit/record-file.ts';
import { readTokenState } from './executions.ts';
import type { CommandSpec, KeeperReply } from './keeper-wire.ts';
import { KeptCommand } from './kept-command.ts';
import {
  filesIn,
  heirFolder,
  type Layout,
  markOf,
  type OwnerRecord,
  pathsIn,
  type TokenPaths,
} from './layout.ts';
import { Leftovers } from './leftovers.ts';
import {
  fsync,
  SharedSync,
  StagedFolder,
  stagingPath,
  syncFolder,
  takePlace,
  writeVisible,
} from './token-folder.ts';
import { readStatus } from './wrapper.ts';

/** A command that is older is not run: by then the brain has long given it up. */
const MAX_SPEC_AGE_MS = 5 * 60_000;
/** How often the keeper looks after its commands: more often after a start, and while output grows fast. */
const SHORTEST_LOOK_MS = 25;
const LONGEST_LOOK_MS = 250;
/** With many commands, a look takes a while: so long is the pause for each of them at least. */
const LOOK_MS_PER_COMMAND = 0.25;
/** How often the keeper checks that the folders of its commands still exist. */
const FOLDER_LOOK_MS = 5000;

/** Where a keeper finds executions by their names, and where it makes their folders. */
export type KeeperLayout = Pick<Layout, 'executions' | 'staging'>;

export class Keeper {
  readonly #layout: KeeperLayout;
  readonly #registry: string;
  readonly #self: ProcessIdentity = identityOf(process.pid);
  readonly #leftovers = new Leftovers();
  readonly #names: SharedSync;
  readonly #onIdle: () => void;
  /** By the name of the token's folder. */
  readonly #commands = new Map<string, KeptCommand>();
  readonly #ends = new Map<string, Promise<void>>();
  /** Orders that are being carried out and have no command yet. */
  #starting = 0;
  #staged = 0;
  #isStopping = false;
  #looking: NodeJS.Timeout | undefined;
  #lookMs = SHORTEST_LOOK_MS;
  #lookForFoldersAt = 0;

  /** `registry` is part of the mark of every process. `onIdle` is called whenever the last command has ended. */
  constructor(layout: KeeperLayout, registry: string, onIdle: () => void = () => undefined) {
    this.#layout = layout;
    this.#registry = registry;
    this.#names = new SharedSync(this.#layout.executions);
    this.#onIdle = onIdle;
  }

  get isIdle(): boolean {
    return this.#commands.size === 0 && this.#starting === 0;
  }

  get isStopping(): boolean {
    return this.#isStopping;
  }

  /** Settles when the end of a command is recorded; at once for a command that this keeper does not have. */
  ended(name: string): Promise<void> {
    return this.#ends.get(name) ?? Promise.resolve();
  }

  /** A folder for a command whose payload is still arriving. */
  stage(payloadBytes: number): StagedFolder {
    return new StagedFolder(this.#layout, this.#self, ++this.#staged, payloadBytes);
  }

  /** Settles when the command is certain to be run: its folder is in place and on stable storage. */
  async run(spec: CommandSpec, staged: StagedFolder): Promise<KeeperReply> {
    this.#starting++;
    try {
      return await this.#place(spec, staged);
    } catch (error) {
      staged.remove();
      throw error;
    } finally {
      this.#starting--;
      if (this.isIdle) this.#onIdle();
    }
  }

  /** Takes over an execution whose keeper is dead. Settles when it is being watched, or has been ended. */
  async adopt(name: string): Promise<KeeperReply> {
    if (this.#commands.has(name)) return { is: 'taken' };
    const { disk } = realEnv();
    const paths = pathsIn(this.#layout, name);
    this.#starting++;
    try {
      const state = await readTokenState(disk, paths);
      if (state.is !== 'orphaned') return { is: 'taken' };
      crashpoint('keeper:before-claim');
      if (this.#commands.has(name) || !this.#claim(paths, state.heirs + 1)) return { is: 'taken' };
      crashpoint('keeper:after-claim');
      const mark = markOf(this.#registry, name);
      const command = new KeptCommand({ paths, mark, owner: state.owner }, this.#leftovers);
      const child = await readRecord(disk, paths.child, isProcessIdentity);
      const { watching, ended } = command.adopt(wrapperOf(paths, mark, state.owner), child);
      this.#keep(name, command, ended);
      if (!watching) await ended;
      return { is: 'accepted' };
    } finally {
      this.#starting--;
      if (this.isIdle) this.#onIdle();
    }
  }

  /** Ends a command by order of the brain; `taken` where it is not this keeper's. */
  kill(name: string): KeeperReply {
    const command = this.#commands.get(name);
    command?.stop('killed');
    return { is: command ? 'accepted' : 'taken' };
  }

  /** Ends all commands: somebody has told this process to stop. */
  stop(): void {
    this.#isStopping = true;
    for (const command of this.#commands.values()) command.stop('ordered');
  }

  /** Carries out the kills that brains have written to the folders. */
  lookForKills(): void {
    for (const command of this.#commands.values()) command.lookForKill();
  }

  async #place(spec: CommandSpec, staged: StagedFolder): Promise<KeeperReply> {
    if (Date.now() - spec.offeredAt > MAX_SPEC_AGE_MS) throw new Error('it came too late');
    const paths = pathsIn(this.#layout, spec.name);
    const owner = this.#ownerOf(spec);
    crashpoint('keeper:before-place');
    const files = staged.place(owner, paths.folder);
    if (files === 'taken') return { is: 'taken' };
    crashpoint('keeper:after-place');
    // L2 of layout.ts, in one flush of the disk. The folder names this keeper from now on, so that the execution has to
    // come to an end, whether it is run or not.
    const syncs = [fsync(files.owner), syncFolder(paths.folder), this.#syncName(paths)];
    const problem = (await Promise.allSettled(syncs)).find(({ status }) => status === 'rejected');
    fs.closeSync(files.owner);
    const mark = markOf(this.#registry, spec.name);
    const command = new KeptCommand({ paths, mark, owner }, this.#leftovers);
    if (this.#isStopping) command.stop('ordered');
    // A brain may have ordered the end while the folder was made.
    command.lookForKill();
    this.#keep(
      spec.name,
      command,
      command.run(spec, files, problem && (problem as PromiseRejectedResult).reason),
    );
    return { is: 'accepted' };
  }

  /** The executions of a backend lie in one folder, those of a spool each in that of its job. */
  #syncName({ folder }: TokenPaths): Promise<void> {
    const parent = dirname(folder);
    return parent === this.#layout.executions ? this.#names.sync() : syncFolder(parent);
  }

  #ownerOf(spec: CommandSpec): OwnerRecord {
    return {
      ...this.#self,
      kept: true,
      token: spec.token,
      hash: spec.hash,
      job_id: spec.jobId,
      model: spec.model,
      split: spec.split,
      ...(spec.output && { output: spec.output }),
      started_at: Date.now(),
      timeout_ms: spec.timeoutMs,
      ...(spec.isOwnTimeout && { own_timeout: true }),
      max_output_bytes: spec.maxOutputBytes,
    };
  }

  /** L4 of layout.ts. */
  #claim(paths: TokenPaths, n: number): boolean {
    const staging = stagingPath(this.#layout, this.#self, ++this.#staged);
    makePrivateFolder(staging);
    writeVisible(filesIn(staging).owner, this.#self);
    return takePlace(staging, heirFolder(paths, n));
  }

  #keep(name: string, command: KeptCommand, ended: Promise<void>): void {
    this.#commands.set(name, command);
    this.#ends.set(
      name,
      ended.catch(() => undefined),
    );
    this.#lookMs = SHORTEST_LOOK_MS;
    this.#lookLater();
    const forget = (): void => {
      this.#commands.delete(name);
      this.#ends.delete(name);
      if (this.isIdle) this.#onIdle();
    };
    ended.then(forget, forget);
  }

  #lookLater(): void {
    if (this.#commands.size === 0) return;
    this.#looking ??= setTimeout(
      () => {
        this.#looking = undefined;
        this.#look();
        this.#lookLater();
      },
      Math.max(this.#lookMs, this.#commands.size * LOOK_MS_PER_COMMAND),
    );
  }

  #look(): void {
    const now = performance.now();
    let isFast = false;
    for (const command of this.#commands.values()) isFast = command.look(now) || isFast;
    this.#lookMs = isFast ? SHORTEST_LOOK_MS : Math.min(2 * this.#lookMs, LONGEST_LOOK_MS);
    if (performance.now() < this.#lookForFoldersAt) return;
    this.#lookForFoldersAt = performance.now() + FOLDER_LOOK_MS;
    for (const command of this.#commands.values()) command.lookForFolder();
  }
}

/** The wrapper of an execution whose keeper is dead; undefined where the command was not run, or its end is not known. */
function wrapperOf(
  { status }: TokenPaths,
  mark: Mark,
  owner: OwnerRecord | undefined,
): ProcessIdentity | undefined {
  // A supervisor of an earlier version ran the command without a wrapper. No process is older than the machine's start.
  if (!owner?.kept || !isThisBoot(owner.boot)) return undefined;
  try {
    // L5 of layout.ts: where this works, no wrapper will run the command.
    fs.closeSync(openPrivate(status, 'wx'));
    return undefined;
  } catch {
    const { pid } = readStatus(status);
    const isMarked = pid !== undefined && isMarkedWith(mark, pid);
    return pid !== undefined && isMarked ? identityOf(pid) : DEAD;
  }
}

/** A wrapper that has ended. */
const DEAD: ProcessIdentity = { pid: 0, start: '', boot: '' };
