/** A cluster node as `orchd up` runs it, with the executor of the bench as an additional backend. */
import { startServer } from '../../src/app/server.ts';
import { loadConfig } from '../../src/config/load.ts';
import { LineOutput } from '../../src/kit/env/line-output.ts';
import { createLogger } from '../../src/kit/logger.ts';
import { CONFIG } from '../kit/brain.ts';
import { ExecutorBackend } from './executor-backend.ts';

const STDOUT = 1;

export interface NodeArgs {
  readonly name: string;
  readonly folder: string;
  /** The address of the database. */
  readonly database: string;
  /** The path of the executor's socket. */
  readonly executor: string;
  readonly slots: number;
}

/** Starts the node and returns its URL. Leases, holds and sweeps have their defaults. */
export async function start({ name, folder, database, executor, slots }: NodeArgs): Promise<string> {
  const own = { store: 'mariadb', mariadb: { url: database }, cluster: { node: name } };
  const more = Object.entries({ ...own, backends: { demo: false } });
  const text = more.map(([key, value]) => `${key}: ${JSON.stringify(value)}`).join('\n');
  const log = new LineOutput(STDOUT);
  const logger = createLogger({ write: (line) => log.write(line), now: () => Date.now(), level: 'info' });
  const { url } = await startServer({
    config: loadConfig({ text: `${CONFIG}\n${text}` }),
    data: folder,
    version: '0.0.0',
    logger,
    port: 0,
    backends: [new ExecutorBackend(executor, slots)],
  });
  return url;
}
