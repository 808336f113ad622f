/** What the rest of the program knows of a kind of store; registry.ts lists them. */

import type { ResolvedConfig } from '../config/resolve.ts';
import type { Leadership, Term } from '../core/ports/leadership.ts';
import type { Store } from '../core/ports/store.ts';
import type { Env } from '../kit/env/env.ts';
import type { Logger } from '../kit/logger.ts';
import type { Place } from './migration/between.ts';

export interface StoreSettings {
  readonly env: Env;
  readonly config: ResolvedConfig;
  /** The data folder; a store that keeps its data elsewhere does without it. */
  readonly folder: string;
  readonly logger?: Logger | undefined;
  /** Of a node that leads. */
  readonly term?: Term | undefined;
}

/** `secret`: by which the nodes of one store know each other. */
export type NodeLeadership = Leadership & { readonly secret: string };

/** What a place on a command line is read against. */
export interface PlaceSettings {
  readonly config: ResolvedConfig;
  /** The data folder of the command. */
  readonly data: string;
}

export interface StoreDescriptor {
  /** As people write it. */
  readonly title: string;
  /** Everything in such a store is gone with its process. */
  readonly keepsNothing?: true;
  /** Makes a store that is not open yet; throws CONFIG_INVALID where something is missing for it. */
  open(settings: StoreSettings): Store;
  /** Several nodes can share such a store: what they elect their leader by. Without it a server stands alone. */
  leadership?(env: Env, config: ResolvedConfig): NodeLeadership;
  /** All work can be migrated from such a store and to it. */
  readonly migration?: {
    /** How such a place is written on a command line. */
    readonly form: string;
    /** Undefined where the text is no place of this kind; throws INVALID_PARAMS where it is one that cannot be. */
    place(text: string, settings: PlaceSettings): Place | undefined;
  };
  /** Brings what is stored to this version of the program, as an opening does. */
  upgrade?(config: ResolvedConfig): Promise<{ readonly from: number; readonly to: number }>;
}
