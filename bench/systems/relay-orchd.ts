/**
 * orchd as a relay: a brain as `orchd up` runs it, whose pool manager and worker are the source (source.ts), so that
 * tokens take the same path as those of a real worker; or in front of an executor of the bench.
 */
import { startServer } from '../../src/app/server.ts';
import { loadConfig } from '../../src/config/load.ts';
import { createLogger } from '../../src/kit/logger.ts';
import { CONFIG } from '../kit/brain.ts';
import { registerModel } from './pool-stub.ts';

/** More streams than any bench opens. */
const STREAMS = 10_000;

export interface RelayOrchdArgs {
  readonly folder: string;
  /** The port of the pool manager, or of the gateway. */
  readonly upstream: number;
  readonly through?: 'pool' | 'gateway';
}

/** Starts the server and returns its port. */
export async function start({ folder, upstream, through = 'pool' }: RelayOrchdArgs): Promise<number> {
  const url = `http://127.0.0.1:${upstream}`;
  const more = [
    ...(through === 'pool' ? [`  pool_managers: ${url}`] : ['pool:', `  url: ${url}`]),
    'server:',
    `  max_connections: ${STREAMS}`,
    `  max_streams_per_caller: ${STREAMS}`,
    'backends:',
    '  demo: false',
  ];
  const config = loadConfig({ text: `${CONFIG.trimEnd()}\n${more.join('\n')}\n` });
  const logger = createLogger({ write: () => undefined, now: () => Date.now(), level: 'warn' });
  const server = await startServer({ config, data: folder, version: '0.0.0', logger, port: 0 });
  const port = Number(new URL(server.url).port);
  if (through === 'pool') await registerModel(port);
  return port;
}
