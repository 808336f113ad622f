/**
 * The ledger: a file with one line `<token> <job id>` for every execution begun, with which tests check that nothing
 * ran twice. Several workers may append to one file.
 */
import { appendFileSync } from 'node:fs';

export type Ledger = (token: string, jobId: string) => void;

/** Writes synchronously before the engine is called: a missing line would mean that nothing ran. */
export const fileLedger =
  (path: string): Ledger =>
  (token, jobId) =>
    appendFileSync(path, `${token} ${jobId.replace(/\s/g, '?')}\n`, { mode: 0o600 });
