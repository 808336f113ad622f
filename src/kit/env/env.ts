/**
 * The interfaces to the outside world. All other code takes time, timers, randomness and the disk from an Env, so that
 * the same code runs on a real machine and in a deterministic simulation.
 */
export interface Clock {
  /** Wall-clock time in ms since 1970; may jump in either direction. */
  now(): number;
  /** Milliseconds that only grow, for waits and durations. */
  monotonic(): number;
  /** Set on the clock of a simulation or a test: comparing it with a real clock (a database's, say) is meaningless. */
  readonly isMadeUp?: true;
}

export type Cancel = () => void;

export interface Timers {
  after(ms: number, run: () => void): Cancel;
  /** Runs `run` in the next turn of the event loop, after the events that are already queued. */
  soon(run: () => void): void;
}

export interface Random {
  /** A number in [0, 1). */
  next(): number;
  /** `bytes` random bytes as hexadecimal digits. */
  hex(bytes: number): string;
}

export interface DiskFile {
  /** Writes all of `data` or throws; a short write is continued. */
  write(position: number, data: Uint8Array): Promise<void>;
  /** Reads up to `length` bytes; fewer only at the end of the file. */
  read(position: number, length: number): Promise<Buffer>;
  size(): Promise<number>;
  /** Settles when everything written so far is on stable storage. */
  datasync(): Promise<void>;
  truncate(size: number): Promise<void>;
  close(): Promise<void>;
}

/**
 * `read` and `write` need the file to exist; `create` makes it or empties it. The others are for folders in which
 * foreign programs work: they follow no link and open nothing but a plain file. `exclusive` makes the file and fails
 * with EEXIST where the name is taken; `plain` reads; `append` makes the file where it does not exist, and everything is
 * written at its end, whatever the position.
 */
export type OpenMode = 'read' | 'write' | 'create' | 'exclusive' | 'plain' | 'append';

export interface DiskStat {
  readonly size: number;
  readonly isFolder: boolean;
  /** Names the file itself, wherever it is moved; a copy has another one. Absent on a simulated disk. */
  readonly identity?: string;
  /** The number of names that the file has. */
  readonly links?: number;
}

/** What a name stands for; `other` is a pipe, a device or a socket. */
export type EntryKind = 'file' | 'folder' | 'link' | 'other';

export interface DiskEntry {
  /** Where `isText` is false, a text that looks like the name and finds no file. */
  readonly name: string;
  readonly kind: EntryKind;
  /** False for a name whose bytes are not UTF-8. */
  readonly isText: boolean;
}

/** A name itself, where DiskStat tells about what a link leads to. */
export interface EntryStat {
  readonly kind: EntryKind;
  readonly size: number;
  /** Names the file system: a rename works within one only. */
  readonly device: string;
  /** Names the file or folder itself, wherever it is moved. */
  readonly identity: string;
  /** When it was last changed or touched, in ms since 1970 by the clock that the file system uses. */
  readonly modifiedMs: number;
}

/** The space of the file system that a path is on. */
export interface DiskSpace {
  /** What a process without special rights can still write. */
  readonly freeBytes: number;
}

export interface Disk {
  open(path: string, mode: OpenMode): Promise<DiskFile>;
  /** Names in a folder, sorted; empty when the folder does not exist. */
  list(folder: string): Promise<string[]>;
  /** What is in a folder, unsorted and in pieces, so that a large folder is never in memory. Fails without the folder. */
  entries(folder: string): AsyncIterable<readonly DiskEntry[]>;
  stat(path: string): Promise<DiskStat | undefined>;
  /** Like `stat`, of the name itself: follows no link. */
  lstat(path: string): Promise<EntryStat | undefined>;
  /** A folder may be renamed onto an empty folder, which is replaced; a filled one fails with ENOTEMPTY or EEXIST. */
  rename(from: string, to: string): Promise<void>;
  /** Removes a file or a link; one that does not exist is no error. */
  remove(path: string): Promise<void>;
  /** Removes an empty folder; one that does not exist is no error, a filled one fails with ENOTEMPTY or EEXIST. */
  removeFolder(path: string): Promise<void>;
  /** Makes a folder and those above it; leaves one that exists. */
  makeFolder(path: string): Promise<void>;
  /** Makes one folder; fails with EEXIST where the name is taken, and with ENOENT without the folder above. */
  makeNewFolder(path: string): Promise<void>;
  /** Sets `modifiedMs` to the present; fails without the file. */
  touch(path: string): Promise<void>;
  /** Makes creations, renames and removals in a folder durable. */
  syncFolder(path: string): Promise<void>;
  /**
   * Takes all permissions of other users from the entries of a folder that are ours, and from the folder itself if it
   * holds nothing else. Resolves to whether the folder is closed to others; also if it does not exist. A simulated disk
   * has no other users and leaves this out.
   */
  closeToOthers?(folder: string, isOurs: (name: string) => boolean): Promise<boolean>;
  /** Whether the rights of this user allow to write to a file or folder. A simulated disk has one user and leaves this out. */
  mayWrite?(path: string): Promise<boolean>;
  /** A simulated disk has no limits and leaves this out. */
  space?(path: string): Promise<DiskSpace>;
  /** Takes an exclusive lock that is released when the process ends; undefined when it is already held. */
  lock(path: string): Promise<{ release(): Promise<void> } | undefined>;
}

export interface Env {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly random: Random;
  readonly disk: Disk;
}

/** The error code of a failed disk call (`ENOSPC`, `EIO`, …), or undefined. */
export function diskErrorCode(thrown: unknown): string | undefined {
  const code = (thrown as { code?: unknown } | undefined)?.code;
  return typeof code === 'string' ? code : undefined;
}
