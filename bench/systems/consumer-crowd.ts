/** Consumers that have nothing to do, in one process. */
import { Consumer } from '../../src/consumer/index.ts';

export interface CrowdArgs {
  readonly url: string;
  readonly redisUrl: string;
  readonly count: number;
}

export async function start({ url, redisUrl, count }: CrowdArgs): Promise<true> {
  const options = { url, redisUrl, pool: 'idle', types: ['idle'], slots: 4, handler: () => null };
  await Promise.all(Array.from({ length: count }, () => new Consumer(options).start()));
  return true;
}
