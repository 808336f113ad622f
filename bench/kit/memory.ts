/** Measures memory after garbage collection. */
import { sleep } from './numbers.ts';

export async function settledMemory(): Promise<NodeJS.MemoryUsage> {
  const { gc } = globalThis as { gc?: () => void };
  if (!gc) throw new Error('run with --expose-gc');
  for (let times = 0; times < 3; times++) {
    gc();
    await sleep(50);
  }
  return process.memoryUsage();
}
