/** The program of a gateway that the brain starts: a process of its own, which the brain's end does not touch. */
import { realEnv } from '../../kit/env/real.ts';
import { Secret } from '../../kit/secret.ts';
import { fileLedger } from '../execution/ledger.ts';
import { processLogger } from '../execution/process-logger.ts';
import { LEDGER_VARIABLE } from '../upstream/layout.ts';
import { driverOf } from './drivers/registry.ts';
import { Gateway } from './gateway.ts';
import { GATEWAY_LAUNCH_VARIABLE, GATEWAY_TOKEN_VARIABLE } from './layout.ts';

const [, , folder = '.', host = '127.0.0.1', port = '0', ...allowedHosts] = process.argv;
const {
  [GATEWAY_LAUNCH_VARIABLE]: launch = '',
  [GATEWAY_TOKEN_VARIABLE]: token = '',
  [LEDGER_VARIABLE]: ledger,
} = process.env;
if (launch === '' || token === '')
  throw new Error('this program is started by `orchd up`; `orchd gateway` runs a gateway alone');

const env = realEnv();
const logger = processLogger(env);
const gateway = new Gateway({
  env,
  logger,
  folder,
  host,
  port: Number(port),
  allowedHosts,
  launch,
  token: new Secret(token),
  drivers: (order) => driverOf(order, { env, folder }),
  ledger: ledger === undefined ? undefined : fileLedger(ledger),
});
// The brain decides about its end; a signal that is meant for the brain must not reach it.
for (const name of ['SIGHUP', 'SIGINT'] as const) process.on(name, () => undefined);
process.on('SIGTERM', () => void gateway.drain());
await gateway.start();
const failure = await Promise.race([gateway.ended, gateway.failed]);
if (failure) {
  logger.error('the disk has failed; the gateway ends, and the next one reads what is durable', {
    error_code: failure.code,
  });
  process.exit(1);
}
await gateway.stop();
process.exit(0);
