/** A brain on MariaDB under load, while a test does what it likes to the server and to its connections. */
import { realEnv } from '../../src/kit/env/real.ts';
import type { Connect } from '../../src/stores/mariadb/sql.ts';
import { buildBrain } from './brain.ts';
import { type Folders, foldersOf, makeFolders } from './folders.ts';
import { runClient } from './load-clients.ts';
import { recoverTables } from './recovering-tables.ts';
import { openAcks } from './script.ts';

const CLIENTS = 6;
const SLOTS = 4;

/** How far the clients are. */
export class Progress {
  done = 0;
  #watchers: (() => void)[] = [];

  note(): void {
    this.done++;
    for (const wake of this.#watchers.splice(0)) wake();
  }

  /** Returns when so many more jobs have come to their end. */
  async more(count: number): Promise<void> {
    const wanted = this.done + count;
    while (this.done < wanted) await new Promise<void>((resolve) => this.#watchers.push(resolve));
  }
}

export interface Disturbed {
  readonly root: string;
  readonly url: string;
  readonly connect: Connect;
  /** The clients go on until it returns. */
  readonly disturb: (progress: Progress) => Promise<void>;
}

/** Returns what is wrong afterwards, and how many jobs there were. */
export async function underLoad(options: Disturbed): Promise<{ problems: string[]; jobs: number }> {
  const { url } = options;
  const folders = makeFolders(foldersOf(options.root));
  const progress = new Progress();
  await loadBrain(folders, options, progress);
  const problems = await recoverTables({ folders, url }, Date.now() + 1, { pace: 'real', script: [] });
  return { problems, jobs: progress.done };
}

async function loadBrain(
  folders: Folders,
  { connect, disturb }: Disturbed,
  progress: Progress,
): Promise<void> {
  const env = realEnv();
  const { orchestrator } = buildBrain(env, folders, {
    pace: 'real',
    background: 'inline',
    ledger: { slots: SLOTS },
    connect,
  });
  await orchestrator.start();
  const acks = openAcks(folders.acks);
  let isOver = false;
  const afterJob = async (): Promise<'more' | 'enough'> => {
    progress.note();
    return isOver ? 'enough' : 'more';
  };
  const clients = Array.from({ length: CLIENTS }, (_, at) =>
    runClient(orchestrator, { name: `c${at}`, seed: at + 1, acks, now: () => env.clock.now(), afterJob }),
  );
  const working = Promise.all(clients);
  // A client that fails ends the wait for progress that will not come.
  await Promise.race([disturb(progress), working]);
  isOver = true;
  await working;
  await orchestrator.stop();
  acks.close();
}
