/** How many commands a Redis has carried out so far. */
import { createClient } from 'redis';

export async function ownCommands(url: string): Promise<number> {
  const client = createClient({ url, RESP: 2 });
  client.on('error', () => undefined);
  await client.connect();
  const info = String(await client.sendCommand(['INFO', 'stats']));
  client.destroy();
  return Number(/total_commands_processed:(\d+)/.exec(info)?.[1] ?? 0);
}
