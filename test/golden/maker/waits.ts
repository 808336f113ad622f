/**
 * The happenings of v6: jobs that wait, with states of every form in which they are stored, and sessions with messages,
 * in memory and in the archive. Two runs of a brain, the same on every store.
 */
import { FunctionBackend, type FunctionContext } from '../../../src/backends/local/functions.ts';
import type { Env } from '../../../src/kit/env/env.ts';
import { type Stage, submit } from './script.ts';

/** Longer than a text that stays in the record of its job, and shorter than one that is a blob. */
export const LONG = 'a "long" text \u{1f98a}\n'.repeat(40);
/** More than is kept inside of any record. */
export const LARGE = 'a line of a "large" text \u{1f98a}\n'.repeat(300);

interface Kept {
  readonly messages: readonly object[];
  readonly turn: number;
}

/** Each of its calls says again what was said before, and what the job below it has returned. */
function talk(_: unknown, { waited, wait, jobId }: FunctionContext): unknown {
  const { messages, turn } = (waited?.state ?? { messages: [{ role: 'user', content: LARGE }], turn: 0 }) as Kept;
  if (waited?.answer !== undefined) return { messages, turn };
  const said = turn === 0 ? messages : [...messages, { role: 'tool', content: `data\n${LARGE}\nend` }];
  const job = { job_id: `${jobId}.${turn}`, type: 'part', payload: { messages: said } };
  return wait({ state: { messages: said, turn: turn + 1 }, growing: ['messages'], jobs: turn < 2 ? [job] : [] });
}

/** Keeps the text that it is given, until somebody answers. */
const keep = (text: string, { waited, wait }: FunctionContext): unknown =>
  waited ? { state: waited.state, answer: waited.answer } : wait({ state: { text } });

export const waitingBackends = (env: Env) => [
  new FunctionBackend(env, { name: 'waits', slots: 8, repeatable: true, types: { keep, talk } as never }),
  new FunctionBackend(env, { name: 'parts', slots: 8, types: { part: () => ({ ok: true, text: LARGE }) } }),
];

const DAY_MS = 86_400_000;

export async function firstWaits(stage: Stage): Promise<void> {
  const { world, brain } = stage;
  const messages = [{ role: 'user', content: LARGE }, { role: 'assistant', content: 'short' }];
  await world.settled(brain.sessions.create('default', 'old', { messages, metadata: { mode: 'quiet' } }));
  await world.pass(DAY_MS + 3_600_000);
  await world.settled(brain.sessions.create('default', 'talk', { messages }));
  await submit(stage, {
    short: { type: 'keep', payload: 'short' },
    long: { type: 'keep', payload: LONG },
    'long-dead': { type: 'keep', payload: LONG, deadline_ms: 500 },
    large: { type: 'keep', payload: LARGE },
    talking: { type: 'talk', payload: null },
    sealed: { type: 'keep', payload: LONG, session_id: 'talk' },
  });
  await world.pass(5000);
  await world.settled(brain.checkpoint());
}

/** What is left in the log, behind the last checkpoint. */
export async function secondWaits(stage: Stage): Promise<void> {
  await submit(stage, {
    'long-later': { type: 'keep', payload: LONG },
    'talking-later': { type: 'talk', payload: null, session_id: 'talk', parallel: true },
  });
  await stage.world.pass(1000);
}
