/**
 * The engine's own ledger: one line for every execution that was begun in it, `<token> <job id>`, for whoever
 * wants to check that nothing ran twice. Several workers may append to one file.
 */
import { appendFileSync } from 'node:fs';

export type Ledger = (token: string, jobId: string) => void;

/** Written before the engine hears of it, and at once: a line that is missing would say that nothing ran. */
export const fileLedger =
  (path: string): Ledger =>
  (token, jobId) =>
    appendFileSync(path, `${token} ${jobId.replace(/\s/g, '?')}\n`);
