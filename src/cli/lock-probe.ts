/** Finds out whether a process holds a data folder, by reading the lock file with SQLite: nothing is written or locked. */
import { DatabaseSync } from 'node:sqlite';

export async function isHeld(lock: string): Promise<boolean> {
  const database = new DatabaseSync(lock, { readOnly: true, timeout: 0 });
  try {
    database.prepare('SELECT 1 FROM sqlite_schema').all();
    return false;
  } catch (error) {
    if (/locked|busy/i.test((error as Error).message)) return true;
    throw error;
  } finally {
    database.close();
  }
}
