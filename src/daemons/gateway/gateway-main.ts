/** The program of a gateway that the brain starts: a process of its own, which the brain's end does not touch. */
import { realEnv } from '../../kit/env/real.ts';
import { createLogger, LOG_LEVELS } from '../../kit/logger.ts';
import { Secret } from '../../kit/secret.ts';
import { OrchdError } from '../../model/errors.ts';
import { fileLedger } from '../execution/ledger.ts';
import { LEDGER_VARIABLE } from '../upstream/layout.ts';
import { Gateway } from './gateway.ts';
import { GATEWAY_LAUNCH_VARIABLE, GATEWAY_TOKEN_VARIABLE } from './layout.ts';
import type { Drivers } from './seats.ts';

const [, , folder = '.', host = '127.0.0.1', port = '0', ...allowedHosts] = process.argv;
const {
  [GATEWAY_LAUNCH_VARIABLE]: launch = '',
  [GATEWAY_TOKEN_VARIABLE]: token = '',
  [LEDGER_VARIABLE]: ledger,
} = process.env;
if (launch === '' || token === '')
  throw new Error('this program is started by `orchd up`; `orchd gateway` runs a gateway alone');

const env = realEnv();
const logger = createLogger({
  write: (line) => {
    process.stdout.write(line);
  },
  now: () => env.clock.now(),
  level: LOG_LEVELS.find((level) => level === process.env['ORCHD_LOG_LEVEL']) ?? 'info',
});
// With src/daemons/gateway/drivers: const drivers: Drivers = (order) => driverOf(order, { env });
const drivers: Drivers = () => {
  throw new OrchdError('UNSUPPORTED', 'this gateway has no drivers');
};
const gateway = new Gateway({
  env,
  logger,
  folder,
  host,
  port: Number(port),
  launch,
  token: new Secret(token),
  allowedHosts,
  drivers,
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
