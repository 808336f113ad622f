/** A consumer in a process of its own, whose jobs do nothing but say when they began. */
import { Consumer } from '../../src/consumer/index.ts';

export interface ConsumerArgs {
  readonly url: string;
  readonly slots: number;
  /** Where it hears of jobs; by long poll without it. */
  readonly redisUrl?: string;
}

/** On the clock that all processes of a machine share. */
export const sharedNow = (): number => Number(process.hrtime.bigint()) / 1e6;

/** Resolves as soon as it asks for work; it runs until its process ends. */
export async function start({ url, slots, redisUrl }: ConsumerArgs): Promise<true> {
  const handler = (): number => sharedNow();
  void new Consumer({
    url,
    pool: 'bench',
    types: ['bench'],
    slots,
    handler,
    ...(redisUrl !== undefined && { redisUrl }),
  }).run();
  return true;
}
