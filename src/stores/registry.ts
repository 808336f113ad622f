/**
 * Every kind of store. To add one: a folder beside these with a descriptor and a harness for the conformance suite,
 * one line here, and its name in the schema of the configuration. A driver that may be missing (`mariadb`) is imported
 * when its store is opened, not here.
 */
import type { ResolvedConfig } from '../config/resolve.ts';
import type { StoreDescriptor } from './descriptor.ts';
import { journal } from './journal/descriptor.ts';
import { mariadb } from './mariadb/descriptor.ts';
import { memory } from './memory/descriptor.ts';

type ConfiguredKind = ResolvedConfig['store']['kind'];

export const STORES: { readonly [K in ConfiguredKind | 'memory']: StoreDescriptor } = {
  memory,
  journal,
  mariadb,
};

/** The store for the data of an embedding program: its folder, or the name of a store that keeps nothing. */
export function storeFor(config: ResolvedConfig, data: string): StoreDescriptor {
  const named = Object.entries(STORES).find(([name, { keepsNothing }]) => keepsNothing && name === data);
  return named ? named[1] : configuredStore(config);
}

export const configuredStore = ({ store }: ResolvedConfig): StoreDescriptor => STORES[store.kind];
