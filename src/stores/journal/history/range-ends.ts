/** The blob files that the rows of a table refer to. */
import type { DatabaseSync } from 'node:sqlite';
import { noticingDamage } from './damage.ts';

/**
 * The ends of the ranges in the columns `blob_low` and `blob_high` of a table are files that its rows refer to. Jumps from
 * pair to pair in the index over both: there are few pairs, while reading all entries of a large index would delay the
 * start.
 */
export function rangeEnds(database: DatabaseSync, table: 'jobs' | 'sessions'): number[] {
  const first = (sql: string): ((...values: number[]) => number | undefined) => {
    const statement = noticingDamage(() => database.prepare(sql));
    return (...values) => {
      const row = noticingDamage(() => statement.get(...values)) as { value: number | null } | undefined;
      return row?.value ?? undefined;
    };
  };
  const nextLow = first(`SELECT min(blob_low) AS value FROM ${table} WHERE blob_low > ?`);
  const nextHigh = first(`SELECT min(blob_high) AS value FROM ${table} WHERE blob_low = ? AND blob_high > ?`);
  const files = new Set<number>();
  for (let low = nextLow(-1); low !== undefined; low = nextLow(low)) {
    files.add(low);
    for (let high = nextHigh(low, -1); high !== undefined; high = nextHigh(low, high)) files.add(high);
  }
  return [...files];
}
