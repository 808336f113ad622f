/**
 * The fake gateway as a process of its own, which the brain starts and finds like the real one. Arguments: its folder, the
 * host and the port. A job ends at once, unless its prompt is `hold`: then it ends when POST /release is called.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { GATEWAY_LAUNCH_VARIABLE, GATEWAY_TOKEN_VARIABLE } from '../../src/daemons/gateway/layout.ts';
import { ADDRESS_FILE, type ExecutorAddress } from '../../src/daemons/upstream/layout.ts';
import { identityOf } from '../../src/kit/process/identity.ts';
import { FakeGateway } from './gateway.ts';

const [, , folder = '.', , port = '0'] = process.argv;
const gateway = new FakeGateway();
gateway.token = process.env[GATEWAY_TOKEN_VARIABLE];
gateway.answersAtOnce = true;
const uri = await gateway.listen(Number(port));
const address: ExecutorAddress = {
  launch: process.env[GATEWAY_LAUNCH_VARIABLE] ?? '',
  uri,
  process: identityOf(process.pid),
};
writeFileSync(join(folder, ADDRESS_FILE), JSON.stringify(address));
process.on('SIGTERM', () => process.exit(0));
