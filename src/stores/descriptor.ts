/** How the rest of the program opens one kind of store, elects a leader on it and migrates it; registry.ts lists all kinds. */

import type { ResolvedConfig } from '../config/resolve.ts';
import type { Leadership, Term } from '../core/ports/leadership.ts';
import type { Store } from '../core/ports/store.ts';
import type { Env } from '../kit/env/env.ts';
import type { Logger } from '../kit/logger.ts';
import type { MigratableStore } from './migration/between.ts';

export interface StoreSettings {
  readonly env: Env;
  readonly config: ResolvedConfig;
  /** The data folder; ignored by a store that keeps its data elsewhere. */
  readonly folder: string;
  readonly logger?: Logger | undefined;
  /** The data is a copy, or a restored backup. */
  readonly isCopy?: boolean | undefined;
  /** The node's term as leader; undefined where the server runs alone. */
  readonly term?: Term | undefined;
}

/** `secret` authenticates the nodes of one store to each other. */
export type NodeLeadership = Leadership & { readonly secret: string };

/** The settings that complete a store's location as given on a command line. */
export interface LocationSettings {
  readonly config: ResolvedConfig;
  /** The data folder of the command. */
  readonly data: string;
}

/** The files and folders of the parts of a store, by the name of the part. */
export type StoreParts = Readonly<Record<string, readonly string[]>>;

export interface StoreDescriptor {
  /** The store's name in texts for people. */
  readonly title: string;
  /** Everything in such a store is gone with its process. */
  readonly keepsNothing?: true;
  /** Throws CONFIG_INVALID where a setting is missing that `open` needs. */
  checkSettings?(config: ResolvedConfig): void;
  /** Constructs a store, whose own `open` is still to be called; throws CONFIG_INVALID where a setting is missing. */
  open(settings: StoreSettings): Store;
  /** The files and folders of such a store in the data folder; absent if it keeps nothing there. */
  parts?(folder: string): StoreParts;
  /** The leader election of the nodes that share such a store. Without it only one server can use the store. */
  leadership?(env: Env, config: ResolvedConfig): NodeLeadership;
  /** Present where everything in such a store can be migrated to another one, and back. */
  readonly migration?: {
    /** The syntax of such a store's location on a command line. */
    readonly form: string;
    /** Undefined where the text is no location of this kind; throws INVALID_PARAMS where it is a wrong one. */
    place(text: string, settings: LocationSettings): MigratableStore | undefined;
  };
  /** Upgrades stored data to this version of the program; opening the store does the same. */
  upgrade?(config: ResolvedConfig): Promise<{ readonly from: number; readonly to: number }>;
}
