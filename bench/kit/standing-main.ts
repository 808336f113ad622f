/** The child's side of standing.ts. */
import { settledMemory } from './memory.ts';
import type { Order, Said } from './standing.ts';

const [url = '', args = 'null'] = process.argv.slice(2);

const say = (said: Said, then = (): void => undefined): void => void process.send?.(said, then);

// Also when the bench itself has died.
process.once('disconnect', () => process.exit(0));
process.on('message', (order: Order) => {
  if (order === 'stop') process.exit(0);
  void settledMemory().then((value) => say({ value }));
});

try {
  const module = (await import(url)) as { start: (args: unknown) => Promise<unknown> };
  say({ value: (await module.start(JSON.parse(args))) ?? null });
} catch (error) {
  const reason = error instanceof Error ? (error.stack ?? error.message) : String(error);
  say({ error: reason }, () => process.exit(1));
}
