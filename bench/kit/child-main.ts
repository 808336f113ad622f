/** The main program of the processes that child.ts starts. */
import type { Outcome } from './child.ts';

const [url = '', args = 'null'] = process.argv.slice(2);

async function measure(): Promise<Outcome> {
  try {
    const module = (await import(url)) as { measure: (args: unknown) => Promise<unknown> };
    return { value: await module.measure(JSON.parse(args)) };
  } catch (error) {
    return { error: error instanceof Error ? (error.stack ?? error.message) : String(error) };
  }
}

const outcome = await measure();
// Exits even where something was left open, but only after the result was sent.
process.send?.(outcome, () => process.exit(0));
