/** The main program of the background thread: executes the calls of ThreadBackground one at a time, in order. */
import { parentPort, workerData } from 'node:worker_threads';
import { diskErrorCode } from '../../kit/env/env.ts';
import { RealDisk } from '../../kit/env/real-disk.ts';
import { InlineBackground } from './background.ts';
import { SqliteHistory } from './history/sqlite.ts';
import { paths } from './layout.ts';
import type { ThreadReply, ThreadRequest } from './thread.ts';

const { folder } = workerData as { folder: string };
const where = paths(folder);
const background = new InlineBackground(new RealDisk(), where, new SqliteHistory(where.history, 'write'));

let last: Promise<void> = Promise.resolve();

parentPort?.on('message', (request: ThreadRequest) => {
  last = last.then(() => answer(request));
});

async function answer({ id, call, args }: ThreadRequest): Promise<void> {
  const run = background[call] as (...args: readonly unknown[]) => Promise<unknown>;
  let reply: ThreadReply;
  try {
    reply = { id, value: await run.apply(background, args as unknown[]) };
  } catch (error) {
    reply = { id, error: { message: (error as Error).message, code: diskErrorCode(error) } };
  }
  parentPort?.postMessage(reply);
}
