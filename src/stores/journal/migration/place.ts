/** A data folder as the source or the target of a migration. */
import type { MigratableStore } from '../../migration/between.ts';
import { JournalContents, placeName } from './contents.ts';
import { JournalTarget } from './target.ts';

export const journalPlace = (folder: string): MigratableStore => ({
  label: placeName(folder),
  folder,
  contents: (env) => JournalContents.open(env, folder),
  target: (env) => JournalTarget.open(env, folder),
});
