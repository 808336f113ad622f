/** The main program of the processes that background-process.ts starts. */

import type { ProcessCommand, ProcessReply } from './background-process.ts';
import { settledMemory } from './memory.ts';

const [url = '', args = 'null'] = process.argv.slice(2);

const reply = (message: ProcessReply, then = (): void => undefined): void =>
  void process.send?.(message, then);

// The process also ends when the bench has died.
process.once('disconnect', () => process.exit(0));
process.on('message', (command: ProcessCommand) => {
  if (command === 'stop') process.exit(0);
  void settledMemory().then((value) => reply({ value }));
});

try {
  const module = (await import(url)) as { start: (args: unknown) => Promise<unknown> };
  reply({ value: (await module.start(JSON.parse(args))) ?? null });
} catch (error) {
  const reason = error instanceof Error ? (error.stack ?? error.message) : String(error);
  reply({ error: reason }, () => process.exit(1));
}
