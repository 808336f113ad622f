/** orchd as `orchd up` runs it, on a free port: journal, request checks, metrics and a log line per admitted job. */
import { startServer } from '../../src/app/server.ts';
import { loadConfig } from '../../src/config/load.ts';
import { LineOutput } from '../../src/kit/env/line-output.ts';
import { createLogger } from '../../src/kit/logger.ts';
import { CONFIG } from '../kit/brain.ts';

const STDOUT = 1;

export interface HttpOrchdArgs {
  readonly folder: string;
  /** `warn` leaves out the log line per job. */
  readonly level: 'info' | 'warn';
}

/** Starts the server and returns its port. */
export async function start({ folder, level }: HttpOrchdArgs): Promise<number> {
  const config = loadConfig({ text: `${CONFIG}\nbackends:\n  demo: false\n` });
  const log = new LineOutput(STDOUT);
  const logger = createLogger({
    write: (line) => log.write(line),
    now: () => Date.now(),
    level,
  });
  const { url } = await startServer({ config, data: folder, version: '0.0.0', logger, port: 0 });
  return Number(new URL(url).port);
}
