/**
 * A child process that keeps the brain busy until it is stopped: `load.ts CASE_FOLDER DATA_FOLDER`. As in
 * production, but for the small limits: real time, several jobs at once, the background on its thread.
 * LOAD_SEGMENT=bytes sets the size of a log segment; LOAD_LIES=1 makes the sync of the log a lie.
 */
import { buildBrain } from './brain.ts';
import { foldersOf, makeFolders } from './folders.ts';
import { keepingEnv } from './keeping-env.ts';
import { runClient } from './load-clients.ts';
import { openAcks } from './script.ts';

const CLIENTS = 6;
const SLOTS = 4;
const CHECKPOINT_EVERY = 40;

const folders = makeFolders(foldersOf(process.argv[2] as string, process.argv[3]));
const lies = process.env['LOAD_LIES'] === '1';
const env = keepingEnv(folders, {
  lies: ({ kind, path }) => lies && kind === 'datasync' && /^log\/\d/.test(path),
});
const { orchestrator } = buildBrain(env, folders, {
  pace: 'real',
  background: 'thread',
  ledger: { slots: SLOTS },
  segmentBytes: Number(process.env['LOAD_SEGMENT']),
});

async function afterJob(n: number): Promise<'more'> {
  // Not with a lie: a checkpoint begins a new segment, and the gap before it would be seen.
  if (!lies && n % CHECKPOINT_EVERY === 0) await orchestrator.checkpoint();
  return 'more';
}

await orchestrator.start();
const acks = openAcks(folders.acks);
const clients = Array.from({ length: CLIENTS }, (_, at) =>
  runClient(orchestrator, { name: `c${at}`, seed: at + 1, acks, now: () => env.clock.now(), afterJob }),
);
// The disk goes away under it: what each client gets then is not the matter here.
await Promise.allSettled(clients);
process.exit(0);
