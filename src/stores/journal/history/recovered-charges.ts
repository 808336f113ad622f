/**
 * Collects the charges of a folder while it is recovered, since the index may lack the last of them.
 *
 * C1  An attempt that was closed after the index's watermark is found in the log, or in the checkpoint's record of its
 *     job. The record keeps only the last attempts: where the checkpoint is ahead of the index, the log between the two
 *     is read as well.
 */
import type { Seq } from '../../../core/ports/store.ts';
import type { Disk } from '../../../kit/env/env.ts';
import { type Charge, chargeOf, chargesOf } from '../../../model/charge.ts';
import type { AskRecord } from '../../../model/records.ts';
import { chargeIn } from '../../charges.ts';
import type { Paths } from '../layout.ts';
import { decodeChanges } from '../log/codec.ts';
import { listSegments, readLog } from '../log/segments.ts';
import type { FolderRecovery } from '../recovered-log.ts';

export class RecoveredCharges {
  readonly #found: { readonly seq: Seq; readonly charge: Charge }[] = [];
  /** The requests of the jobs that were tried. */
  readonly #asks = new Map<string, AskRecord>();

  /** Passes recovered records on to `into`. */
  watching(into: Pick<FolderRecovery, 'job' | 'record'>): FolderRecovery {
    return {
      job: (bundle) => {
        const { uid, ask, job, attempts, seq } = bundle;
        // A job whose attempts have all ended by waiting lists none of them.
        if (job.attempt > 0) this.#asks.set(uid, ask);
        for (const charge of chargesOf(uid, ask, attempts)) this.#found.push({ seq, charge });
        into.job(bundle);
      },
      record: (record) => into.record(record),
      unlisted: (uid, ask, attempt, seq) => {
        const charge = chargeOf(uid, ask, attempt);
        if (charge) this.#found.push({ seq, charge });
      },
    };
  }

  /** The charges of changes after `indexedUpTo`; `checkpointSeq` is the last change in the checkpoint (C1). */
  async after(indexedUpTo: Seq, checkpointSeq: Seq, disk: Disk, { log }: Paths): Promise<Charge[]> {
    const charges = this.#found.filter(({ seq }) => seq > indexedUpTo).map(({ charge }) => charge);
    if (indexedUpTo >= checkpointSeq) return charges;
    const first = (await listSegments(disk, log)).findLast(({ firstSeq }) => firstSeq <= indexedUpTo + 1);
    if (!first) return charges;
    const start = { nextSeq: first.firstSeq, chain: undefined };
    await readLog(disk, log, start, ({ header, payload }) => {
      const { firstSeq, count } = header;
      if (firstSeq > checkpointSeq || firstSeq + count - 1 <= indexedUpTo) return;
      for (const change of decodeChanges(payload, count)) {
        const charge = chargeIn(change, (uid) => this.#asks.get(uid));
        if (charge) charges.push(charge);
      }
    });
    return charges;
  }
}
