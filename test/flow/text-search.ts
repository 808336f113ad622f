/** Searches everything that a brain and its executors have written for texts. */
import { lstatSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { connector } from '../../src/stores/mariadb/sql.ts';
import { isDatabase } from './flow-kit.ts';

function* filesIn(path: string): Generator<string> {
  for (const name of readdirSync(path)) {
    const inside = join(path, name);
    const stats = lstatSync(inside, { throwIfNoEntry: false });
    if (stats?.isDirectory()) yield* filesIn(inside);
    else if (stats?.isFile()) yield inside;
  }
}

/** `<place>: <text>` for every text that is in a file of a folder. */
export function foundInFolder(folder: string, texts: readonly string[]): string[] {
  const found: string[] = [];
  for (const file of filesIn(folder)) {
    const bytes = readFileSync(file);
    for (const text of texts) if (bytes.includes(text)) found.push(`${file.slice(folder.length)}: ${text}`);
  }
  return found;
}

/** The same in all columns of all tables of a database. */
export async function foundInTables(url: string, texts: readonly string[]): Promise<string[]> {
  const sql = await connector(url)();
  const found = new Set<string>();
  try {
    for (const { name } of await sql.query<{ name: string }>(
      "SELECT table_name AS name FROM information_schema.tables WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE'",
    )) {
      for (const row of await sql.query<Record<string, unknown>>(`SELECT * FROM ${name}`))
        for (const [column, value] of Object.entries(row)) {
          const shown = Buffer.isBuffer(value) ? value.toString('latin1') : String(value);
          for (const text of texts) if (shown.includes(text)) found.add(`${name}.${column}: ${text}`);
        }
    }
  } finally {
    await sql.close();
  }
  return [...found];
}

/** Where the data of a brain has these texts: in its folder, or in its database. */
export const foundInData = async (data: string, texts: readonly string[]): Promise<string[]> =>
  isDatabase(data) ? foundInTables(data, texts) : foundInFolder(data, texts);
