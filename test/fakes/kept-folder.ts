/** Where tests leave what the next run, or a person, will look for: `npm test` removes its own temporary folder. */
import { tmpdir } from 'node:os';

/** Variable with the temporary folder of whoever calls `npm test`; names with ORCHD_ would be read as settings. */
export const KEPT = 'TEST_KEPT_FOLDER';

export const keptFolder = (): string => process.env[KEPT] ?? tmpdir();
