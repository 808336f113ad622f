/**
 * `node main.ts openai|anthropic LEDGER [PORT] [KEY]` runs a fake provider on its own, for tests that kill everything
 * else. It prints its port, and is steered by `/_control`.
 */
import { FakeAnthropic } from './anthropic.ts';
import { FakeOpenAi } from './openai.ts';

const [kind, ledger, port = '0', key] = process.argv.slice(2);
if ((kind !== 'openai' && kind !== 'anthropic') || ledger === undefined) {
  console.error('usage: main.ts openai|anthropic LEDGER [PORT] [KEY]');
  process.exit(2);
}
const provider = kind === 'openai' ? new FakeOpenAi(ledger) : new FakeAnthropic(ledger);
provider.key = key;
await provider.start(Number(port));
console.log(new URL(provider.url).port);
