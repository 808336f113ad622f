/** Reads a PLACE of `orchd migrate`: the kind of a store and where it is. */
import type { ResolvedConfig } from '../config/resolve.ts';
import { OrchdError } from '../model/errors.ts';
import type { StoreDescriptor } from '../stores/descriptor.ts';
import type { MigratableStore } from '../stores/migration/between.ts';
import { STORES } from '../stores/registry.ts';
import { UsageError } from './command.ts';
import { folderAt } from './settings.ts';

const MIGRATIONS = Object.values(STORES).flatMap(({ migration }: StoreDescriptor) => migration ?? []);

export async function placeOf(text: string, config: ResolvedConfig, data: string): Promise<MigratableStore> {
  const place = readPlace(text, config, data);
  if (place?.folder !== undefined) await folderAt(place.folder);
  if (place) return place;
  // The text is not repeated: it may be an address with a password.
  throw new UsageError(
    `a place is ${MIGRATIONS.map(({ form }) => form).join(' or ')}; the part after the colon may be left out.`,
  );
}

function readPlace(text: string, config: ResolvedConfig, data: string): MigratableStore | undefined {
  try {
    for (const { place } of MIGRATIONS) {
      const found = place(text, { config, data });
      if (found) return found;
    }
    return undefined;
  } catch (error) {
    throw error instanceof OrchdError ? new UsageError(error.message) : error;
  }
}
