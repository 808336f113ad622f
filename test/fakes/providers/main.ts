/**
 * `node main.ts openai|anthropic|gemini LEDGER [PORT] [KEY]` runs a fake provider on its own, for tests that kill everything
 * else. It prints its port, and is steered by `/_control`.
 */
import { FakeAnthropic } from './anthropic.ts';
import { FakeGemini } from './gemini.ts';
import { FakeOpenAi } from './openai.ts';

const KINDS = { openai: FakeOpenAi, anthropic: FakeAnthropic, gemini: FakeGemini };
const [kind = '', ledger, port = '0', key] = process.argv.slice(2);
if (!Object.hasOwn(KINDS, kind) || ledger === undefined) {
  console.error('usage: main.ts openai|anthropic|gemini LEDGER [PORT] [KEY]');
  process.exit(2);
}
const provider = new KINDS[kind as keyof typeof KINDS](ledger);
provider.key = key;
await provider.start(Number(port));
console.log(new URL(provider.url).port);
