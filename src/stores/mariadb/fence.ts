/** Transactions of the leader beside the commits of its engine: they wait for the same row. */
import { OrchdError } from '../../model/errors.ts';
import { HOLD_FENCE } from './history.ts';
import { type Sql, transaction } from './sql.ts';

/** Runs all of it or nothing, and nothing where another node leads. */
export async function behindFence<T>(sql: Sql, epoch: number, run: () => Promise<T>): Promise<T> {
  return transaction(sql, async () => {
    const fence = await sql.run(HOLD_FENCE, [epoch]);
    if (fence.rows !== 1) throw new OrchdError('FENCED');
    return run();
  });
}
