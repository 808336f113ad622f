/** Fills the ledger of a journal that no brain has open: a month of work would take too long to run. */
import { chargeRow } from '../../src/stores/journal/history/charge-rows.ts';
import { SqliteHistory } from '../../src/stores/journal/history/sqlite.ts';
import { paths } from '../../src/stores/journal/layout.ts';

const ROWS_PER_WRITE = 10_000;
const DAY_MS = 86_400_000;

/** Charges of the 30 days before `until`, of 9,000 sessions, 50 agents and 5 models; each costs one more than the last. */
export function fillLedger(folder: string, count: number, until: number): { readonly cost: number } {
  const history = new SqliteHistory(paths(folder).history, 'write');
  const { watermark } = history.open();
  let cost = 0;
  for (let from = 0; from < count; from += ROWS_PER_WRITE) {
    const rows: string[] = [];
    for (let n = from; n < Math.min(count, from + ROWS_PER_WRITE); n++) {
      cost += n;
      rows.push(
        chargeRow({
          token: `job-${n}:1`,
          job: `job-${n}`,
          tenant: 'default',
          agent: `agent-${n % 50}`,
          submittedBy: 'key',
          session: `session-${n % 9000}`,
          tags: { team: `team-${n % 7}` },
          type: 'inference',
          model: `model-${n % 5}`,
          seat: `seat-${n % 3}`,
          route: undefined,
          root: `job-${n}`,
          at: until - 30 * DAY_MS + Math.floor((n * 30 * DAY_MS) / count),
          ms: 1000,
          outcome: 'succeeded',
          cost: n,
          basis: 'told',
          overrun: 0,
          ...{ input: 1000, cacheRead: 0, cacheWrite: 0, output: 200, reasoning: 0 },
        }),
      );
    }
    history.put([], watermark, undefined, rows);
  }
  history.close();
  return { cost };
}
