/** What the rest of the program knows of the backends that a configuration asks for; registry.ts lists the kinds. */
import type { Backend } from '../core/ports/backend.ts';
import type { Env } from '../kit/env/env.ts';

export interface BackendSettings {
  readonly env: Env;
  /** Kept between starts, for this backend alone. */
  readonly folder: string;
  /** The node of a cluster that it is made on. */
  readonly node: string | undefined;
}

/** A backend that is asked for, not made yet. */
export interface ConfiguredBackend {
  readonly name: string;
  make(settings: BackendSettings): Backend;
}

/** Finds the backends of one kind in what the configuration says under its key. */
export type BackendKind<Asked> = (asked: Asked) => readonly ConfiguredBackend[];
