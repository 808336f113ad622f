/**
 * Tables that a move writes to carry its mark where the record of the brain belongs, in the row of the fence: it
 * comes and goes with a single statement, and a program that knows nothing of marks finds a record of no version
 * it knows.
 */
import { OrchdError } from '../../model/errors.ts';
import type { BrainRecord } from '../../model/records.ts';
import type { Sql } from './sql.ts';

export interface MarkedBrain<M> {
  readonly v: 'moving';
  readonly moving: M;
  /** What will stand here in the end. */
  readonly brain: BrainRecord;
}

export const markedBrain = <M>(moving: M, brain: BrainRecord): string =>
  JSON.stringify({ v: 'moving', moving, brain } satisfies MarkedBrain<M>);

export function readMarked<M>(column: string | null): MarkedBrain<M> | undefined {
  const stored = column === null ? undefined : (JSON.parse(column) as { v: unknown });
  return stored?.v === 'moving' ? (stored as MarkedBrain<M>) : undefined;
}

export async function refuseUnfinished(sql: Sql): Promise<void> {
  const [row] = await sql.query<{ brain: string | null }>(
    'SELECT brain FROM orchestrator_epoch WHERE id = 1',
  );
  if (!readMarked(row?.brain ?? null)) return;
  throw new OrchdError('STORE_UNFINISHED', 'a move into this database was not finished');
}
