/**
 * The seam to the world. Everything above it takes time, chance and disk from an Env, so that the same code
 * runs on a real machine and in a deterministic simulation.
 */
export interface Clock {
  /** Wall time in ms since 1970; may jump. */
  now(): number;
  /** Milliseconds that only grow, for waits and durations. */
  monotonic(): number;
  /** Its time is made up: that of other clocks means nothing beside it. */
  readonly isMadeUp?: true;
}

export type Cancel = () => void;

export interface Timers {
  after(ms: number, run: () => void): Cancel;
  /** Runs after the events that are already waiting: one turn of the loop later. */
  soon(run: () => void): void;
}

export interface Random {
  /** A number in [0, 1). */
  next(): number;
  /** Hexadecimal digits of that many random bytes. */
  hex(bytes: number): string;
}

export interface DiskFile {
  /** Writes all of it or throws; a short write is continued. */
  write(position: number, data: Uint8Array): Promise<void>;
  /** As many bytes as there are, up to `length`. */
  read(position: number, length: number): Promise<Buffer>;
  size(): Promise<number>;
  /** Returns when what was written is on stable storage. */
  datasync(): Promise<void>;
  truncate(size: number): Promise<void>;
  close(): Promise<void>;
}

export type OpenMode = 'read' | 'write' | 'create';

export interface DiskStat {
  readonly size: number;
  readonly isFolder: boolean;
}

export interface Disk {
  /** `create` makes the file or empties it; `write` needs it to exist. */
  open(path: string, mode: OpenMode): Promise<DiskFile>;
  /** Names in a folder, sorted; empty when the folder does not exist. */
  list(folder: string): Promise<string[]>;
  stat(path: string): Promise<DiskStat | undefined>;
  rename(from: string, to: string): Promise<void>;
  remove(path: string): Promise<void>;
  makeFolder(path: string): Promise<void>;
  /** Makes creations, renames and removals in a folder durable. */
  syncFolder(path: string): Promise<void>;
  /** Takes an exclusive lock that dies with the process; undefined when another one holds it. */
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
