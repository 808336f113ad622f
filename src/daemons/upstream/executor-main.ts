/** The program of an upstream's executor: one process for each upstream, started by the brain and independent of it. */
import { realEnv } from '../../kit/env/real.ts';
import { Secret } from '../../kit/secret.ts';
import { fileLedger } from '../execution/ledger.ts';
import { processLogger } from '../execution/process-logger.ts';
import { UpstreamExecutor } from './executor.ts';
import { LAUNCH_VARIABLE, LEDGER_VARIABLE, TOKEN_VARIABLE } from './layout.ts';

const [, , folder = '.'] = process.argv;
const {
  [LAUNCH_VARIABLE]: launch = '',
  [TOKEN_VARIABLE]: token = '',
  [LEDGER_VARIABLE]: ledger,
} = process.env;
if (launch === '' || token === '')
  throw new Error('an executor of an upstream is started by `orchd up --upstream`');

const env = realEnv();
const logger = processLogger(env);
const executor = new UpstreamExecutor({
  env,
  logger,
  folder,
  launch,
  token: new Secret(token),
  ledger: ledger === undefined ? undefined : fileLedger(ledger),
});
// The brain decides about its end; a signal that is meant for the brain must not reach it.
for (const name of ['SIGHUP', 'SIGINT'] as const) process.on(name, () => undefined);
process.on('SIGTERM', () => void executor.drain());
await executor.start();
await executor.ended;
await executor.stop();
process.exit(0);
