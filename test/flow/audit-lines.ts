/** What the audit trail of a store tells, in order: the changes of a journal's log, or the rows of a database. */
import type { TestContext } from 'node:test';
import { realEnv } from '../../src/kit/env/real.ts';
import { type Cause, causeText } from '../../src/model/causes.ts';
import { paths } from '../../src/stores/journal/layout.ts';
import { readLog } from '../../src/stores/journal/log/segments.ts';
import { connector } from '../../src/stores/mariadb/sql.ts';
import { isDatabase } from './flow-kit.ts';

export interface AuditLine {
  readonly kind: string;
  readonly id: string;
  /** The cause, as it is written in the trail. */
  readonly cause: string;
  /** The state, or status, in the record after the change; undefined for records without one. */
  readonly state: string | undefined;
}

type Stated = { readonly state?: string; readonly status?: string } | null | undefined;

const stateOf = (after: Stated): string | undefined => after?.state ?? after?.status;

interface Row {
  readonly subject: string;
  readonly event_type: string;
  readonly details: string;
}

/** Of a brain that has stopped. */
export async function auditLines(t: TestContext, data: string): Promise<AuditLine[]> {
  return isDatabase(data) ? linesOfRows(t, data) : linesOfLog(data);
}

async function linesOfRows(t: TestContext, url: string): Promise<AuditLine[]> {
  const sql = await connector(url)();
  t.after(() => sql.close());
  const rows = await sql.query<Row>(
    'SELECT subject, event_type, details FROM orchestrator_audit ORDER BY id',
  );
  return rows.map(({ subject, event_type: event, details }) => {
    const colon = event.indexOf(':');
    const { after } = JSON.parse(details) as { after?: Stated };
    return { kind: event.slice(0, colon), id: subject, cause: event.slice(colon + 1), state: stateOf(after) };
  });
}

async function linesOfLog(folder: string): Promise<AuditLine[]> {
  const lines: AuditLine[] = [];
  await readLog(realEnv().disk, paths(folder).log, { nextSeq: 1, chain: 0 }, ({ payload }) => {
    for (const line of payload.toString().trimEnd().split('\n')) {
      const [kind, id, after, cause] = JSON.parse(line) as [string, string, Stated, Cause];
      lines.push({ kind, id, cause: causeText(cause), state: stateOf(after) });
    }
  });
  return lines;
}
