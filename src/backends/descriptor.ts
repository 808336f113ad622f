/** How a kind of backend turns its part of the configuration into backends. registry.ts lists the kinds. */
import type { Backend } from '../core/ports/backend.ts';
import type { Env } from '../kit/env/env.ts';

export interface BackendSettings {
  readonly env: Env;
  /** The backend's own data folder; it survives restarts. */
  readonly folder: string;
  /** The cluster node on which the backend is made; undefined outside of a cluster. */
  readonly node: string | undefined;
  /** The data folder is a copy, or a restored backup. */
  readonly isCopy: boolean;
}

/** A backend that is configured, but not made yet. */
export interface ConfiguredBackend {
  readonly name: string;
  /** A model that it answers without any set-up; `orchd up` shows how to ask it. */
  readonly exampleModel?: string;
  /** The program of each job type, where it runs one; `orchd up` says which are missing. */
  readonly programs?: Readonly<Record<string, string | undefined>>;
  make(settings: BackendSettings): Backend;
  /**
   * Opens the backend's folder without making the backend, and throws FOLDER_COPIED for a copy unless `isCopy` is set.
   * A node of a cluster does this when its process starts, because it makes backends only when it is elected. Undefined
   * for a backend that keeps nothing in its folder.
   */
  openFolder?(settings: Pick<BackendSettings, 'env' | 'folder' | 'isCopy'>): Promise<void>;
}

/** Lists the backends of one kind from the configuration under its key. */
export type BackendKind<Config> = (config: Config) => readonly ConfiguredBackend[];
