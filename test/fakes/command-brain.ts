/**
 * A brain to be killed: offers one token to a command backend and says on its standard output how far it got.
 * Arguments: the options as JSON, the token.
 */
import { CommandBackend } from '../../src/backends/local/command/command.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { offerOf, WHO } from './command-kit.ts';

const [options = '', token = ''] = process.argv.slice(2);
const backend = new CommandBackend(realEnv(), JSON.parse(options));
await backend.start();
console.log('offering');
const { is } = await backend.offer(offerOf(token));
console.log(is);
await backend.follow(token, 0, ({ n }) => console.log(`event ${n}`), WHO);
console.log('ended');
