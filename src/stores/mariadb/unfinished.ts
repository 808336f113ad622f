/**
 * While a move writes to the tables, column `brain` of the fence row holds the mark of the move instead of the brain
 * record. A single statement sets or removes it, and a program that knows no marks finds a record of an unknown
 * version there and refuses it.
 */
import { OrchdError } from '../../model/errors.ts';
import type { BrainRecord } from '../../model/records.ts';
import type { Sql } from './sql.ts';

export interface MarkedBrain<M> {
  readonly v: 'moving';
  readonly moving: M;
  /** The brain record that takes the place of the mark when the move is finished. */
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
