/**
 * Compares the charges in the index with the closed attempts that the log and the checkpoint still tell. Charges without
 * such an attempt are not judged: the log that told of them may have been deleted.
 */
import type { Disk } from '../../../kit/env/env.ts';
import { stableHash } from '../../../kit/hash.ts';
import { type Charge, chargesOf } from '../../../model/charge.ts';
import { chargeIn } from '../../charges.ts';
import type { Records } from '../../records.ts';
import { readCharge } from '../history/charge-rows.ts';
import { endedInLog } from '../history/rebuild.ts';
import type { Paths } from '../layout.ts';
import { INDEX_FILE, type OpenHistory, reportUnreadable } from './history.ts';
import type { Report } from './report.ts';

const CHARGES_PER_PAGE = 1000;
const ALL = { from: 0, to: Number.MAX_SAFE_INTEGER };

export async function compareCharges(
  disk: Disk,
  paths: Paths,
  history: OpenHistory,
  records: Records | undefined,
  report: Report,
): Promise<void> {
  if (history.lacksCharges) {
    report.fine('charges', 'an earlier version has written the index; the next start adds the charges');
    return;
  }
  const told = await toldCharges(disk, paths, records, history.watermark);
  const count = told.size;
  let differing = 0;
  let example = '';
  let oldest: number | undefined;
  try {
    for (const charge of chargesIn(history)) {
      oldest ??= charge.at;
      const expected = told.get(charge.token);
      if (expected && !isSame(charge, expected)) {
        differing++;
        example ||= charge.token;
      }
      told.delete(charge.token);
    }
  } catch (error) {
    return reportUnreadable(error, report);
  }
  report.fine('charges', `${count} paid or counted attempts are in the ledger as the log tells them`);
  if (differing > 0) {
    const sentence = `${differing} of ${count} charges differ from their attempts, such as that of "${example}"`;
    report.bad('charges', sentence, INDEX_FILE);
  }
  reportMissing([...told.values()], count, oldest, report);
}

/** Charges leave the ledger by their age, the oldest first: those that are missing before all others may have left it. */
function reportMissing(
  missing: readonly Charge[],
  count: number,
  oldest: number | undefined,
  report: Report,
): void {
  const lost = oldest === undefined ? [] : missing.filter(({ at }) => at >= oldest);
  const [first] = lost;
  if (first) {
    const sentence = `${lost.length} of ${count} charges are missing, such as that of "${first.token}"`;
    report.bad('charges', sentence, INDEX_FILE);
  }
  if (missing.length === lost.length) return;
  const dropped = `${missing.length - lost.length} of ${count} charges are older than all in the ledger: they were dropped by their age, or are missing`;
  report.warn('charges', dropped, INDEX_FILE);
}

/** The charges that the index must have, by the tokens of their attempts: those of changes up to its watermark. */
async function toldCharges(
  disk: Disk,
  paths: Paths,
  records: Records | undefined,
  watermark: number,
): Promise<Map<string, Charge>> {
  const told = new Map<string, Charge>();
  const note = (charge: Charge): void => void told.set(charge.token, charge);
  for (const { uid, ask, attempts, seq } of records?.jobs.values() ?? [])
    if (seq <= watermark) for (const charge of chargesOf(uid, ask, attempts)) note(charge);
  await endedInLog(
    disk,
    paths,
    async () => undefined,
    (change, seq, askInLog) => {
      if (seq > watermark) return;
      // The request of a job that was admitted before the log begins is in the checkpoint, or nowhere any more.
      const charge = chargeIn(change, (uid) => askInLog(uid) ?? records?.jobs.get(uid)?.ask);
      if (charge) note(charge);
    },
  );
  return told;
}

/** In the order of settlement. */
function* chargesIn({ index }: OpenHistory): Generator<Charge> {
  for (let last: Charge | undefined; ; ) {
    const page = index.charges(ALL, last, CHARGES_PER_PAGE).map(readCharge);
    yield* page;
    last = page.at(-1);
    if (!last || page.length < CHARGES_PER_PAGE) return;
  }
}

/** An index that was made again may not have known for whom an attempt was: such a charge has no agent. */
function isSame(charge: Charge, told: Charge): boolean {
  return (
    stableHash(charge.agent === '' ? used(charge) : charge) ===
    stableHash(charge.agent === '' ? used(told) : told)
  );
}

const used = ({ at, seat, ms, outcome, cost, basis, overrun, ...rest }: Charge): unknown => {
  const { input, cacheRead, cacheWrite, output, reasoning } = rest;
  return [at, seat, ms, outcome, cost, basis, overrun, input, cacheRead, cacheWrite, output, reasoning];
};
