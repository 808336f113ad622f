/** Where a store is, as it is written on a command line. */
import { resolve } from 'node:path';
import type { ResolvedConfig } from '../config/resolve.ts';
import type { Place } from '../stores/moving/between.ts';
import { UsageError } from './command.ts';
import { folderAt } from './settings.ts';

export const PLACE_HELP = `A place is one of
  journal:DIR             a data folder; "journal" alone is that of --data
  mariadb://USER@HOST/DB  a database; "mariadb" alone is mariadb.url of the configuration or ORCHD_MARIADB_URL,
                          which other users of the machine cannot see`;

export async function placeOf(text: string, config: ResolvedConfig, data: string): Promise<Place> {
  if (text === 'journal') return journal(data);
  if (text.startsWith('journal:') && text.length > 8) return journal(text.slice(8));
  if (text === 'mariadb') return database(config.store.url.reveal(), config.store.unsafe);
  if (text.startsWith('mariadb://')) return database(text, config.store.unsafe);
  // It may be an address with a password that was written in another way: it is not repeated.
  throw new UsageError('a place is journal:DIR, mariadb://USER:PASSWORD@HOST/DATABASE, journal or mariadb.');
}

const journal = async (folder: string): Promise<Place> => ({
  is: 'journal',
  folder: await folderAt(resolve(folder)),
});

async function database(url: string, unsafe: boolean): Promise<Place> {
  if (url === '') throw new UsageError('"mariadb" needs an address: set mariadb.url or ORCHD_MARIADB_URL.');
  if (!URL.canParse(url)) throw new UsageError('the address of the database is no URL.');
  const { connector } = await import('../stores/mariadb/sql.ts');
  return { is: 'mariadb', connect: connector(url), label: labelOf(new URL(url)), unsafe };
}

export const labelOf = ({ host, pathname, searchParams }: URL): string =>
  `the database ${pathname.slice(1)} at ${searchParams.get('socket') ?? host}`;
