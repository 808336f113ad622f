/**
 * A child process that keeps the brain busy until it is stopped: `load.ts CASE_FOLDER DATA_FOLDER`. As in
 * production, but for the small limits: real time, several jobs at once, the background on its thread.
 * LOAD_SEGMENT=bytes sets the size of a log segment; LOAD_LIES=1 makes the sync of the log a lie.
 */
import type { SubmitRequest } from '../../src/model/submit.ts';
import type { Orchestrator } from '../../src/runtime/orchestrator.ts';
import type { AppendFile } from './append-file.ts';
import { buildBrain } from './brain.ts';
import { foldersOf, makeFolders } from './folders.ts';
import { keepingEnv } from './keeping-env.ts';
import type { Work } from './ledger.ts';
import { ackedJob, openAcks, submitted } from './script.ts';
import { seededRandom } from './steady-env.ts';

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

const WORK: readonly (() => { work: Work; more?: Partial<SubmitRequest> })[] = [
  () => ({ work: {} }),
  () => ({ work: { ms: 3 } }),
  () => ({ work: { text: 'p'.repeat(6000), resultBytes: 6000 } }),
  () => ({ work: { fails: 1 } }),
  () => ({ work: { busy: 1 } }),
  () => ({ work: { fails: 9 }, more: { max_tries: 2 } }),
];

/** One job after the other, each told of before the next. */
async function client(name: string, seed: number, brain: Orchestrator, acks: AppendFile): Promise<void> {
  const random = seededRandom(seed);
  for (let n = 1; ; n++) {
    const { work, more } = (WORK[Math.floor(random.next() * WORK.length)] as (typeof WORK)[number])();
    const label = `${name}-${n}`;
    const answer = await submitted(brain, { job_id: label, type: 'work', payload: work, ...more });
    acks.add({ step: n, at: env.clock.now(), did: 'submit', label, ...answer });
    const job = ackedJob(await brain.wait(answer.id));
    acks.add({ step: n, at: env.clock.now(), did: 'wait', label, job });
    // Not with a lie: a checkpoint begins a new segment, and the gap before it would be seen.
    if (!lies && n % CHECKPOINT_EVERY === 0) await brain.checkpoint();
  }
}

await orchestrator.start();
const acks = openAcks(folders.acks);
const clients = Array.from({ length: CLIENTS }, (_, at) => client(`c${at}`, at + 1, orchestrator, acks));
// The disk goes away under it: what each client gets then is not the matter here.
await Promise.allSettled(clients);
process.exit(0);
