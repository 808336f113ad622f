/** Whether a process holds a data folder: asked of SQLite as a reader, which neither writes nor keeps anything. */
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
