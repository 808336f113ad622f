/** Memory after garbage collection, in processes that were not started with `--expose-gc`. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/** The bytes of the heap that are still needed. Garbage of replies that are under way goes in a later turn. */
export async function heapUsed(): Promise<number> {
  for (let times = 0; times < 3; times++) {
    collect();
    await new Promise((resolve) => setImmediate(resolve));
  }
  return process.memoryUsage().heapUsed;
}
