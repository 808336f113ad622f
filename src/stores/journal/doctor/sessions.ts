/** Checks the bodies of the sessions in the records and in the archive, whose records are read for it. */
import { scoped } from '../../../model/records.ts';
import type { Records } from '../../records.ts';
import type { BlobCheck } from './blobs.ts';
import { type OpenHistory, reportUnreadable } from './history.ts';
import type { Report } from './report.ts';

export async function checkSessions(
  records: Records | undefined,
  history: OpenHistory | undefined,
  blobs: BlobCheck,
  report: Report,
): Promise<void> {
  const inUse = new Set<string>();
  for (const { id, after } of records?.ofKind('session') ?? []) {
    inUse.add(id);
    await blobs.checkSession(after);
  }
  try {
    // The bodies of an earlier version are not needed any more.
    for (const record of history?.index.sessions.all() ?? [])
      if (!inUse.has(scoped(record.tenant, record.id))) await blobs.checkSession(record);
  } catch (error) {
    reportUnreadable(error, report);
  }
}
