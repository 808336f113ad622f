/**
 * Two workers with the real engine and a tiny model, and conversations of five turns: how many tokens of prompts are
 * evaluated where turns go to the worker that has heard the conversation, and where they do not. The engine itself counts
 * them. There are as many conversations at a time as slots; their turns come in a random order, as those of people do who
 * think before they answer. The first turn brings a text that the others ask about.
 */
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { ExecutorBackend } from '../../src/backends/executor/executor-backend.ts';
import { WORKER_PROTOCOL } from '../../src/backends/pool/worker-protocol.ts';
import { LlamaEngine } from '../../src/daemons/worker/llama-engine.ts';
import { Worker } from '../../src/daemons/worker/worker.ts';
import { createOrchestrator, type Orchestrator } from '../../src/index.ts';
import type { Random } from '../../src/kit/env/env.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { createLogger } from '../../src/kit/logger.ts';
import { Outbound } from '../../src/wire/outbound.ts';
import { seededRandom } from '../../test/crash/steady-env.ts';
import { writeTinyModel } from '../../test/fakes/gguf.ts';
import type { Bench, Values } from '../kit/bench.ts';
import { inChild } from '../kit/child.ts';

const WORKERS = ['w1', 'w2'];
const SLOTS = 1;
/** Conversations at a time, and the turns of each. */
const LIVE = WORKERS.length * SLOTS;
const TURNS = 5;
const CONTEXT = 8192;
const QUESTION = 'why does the old river keep a small stone near the queue? ';
/** What a conversation is about; it comes with the first question. */
const TEXT_QUESTIONS = 40;

interface Args {
  readonly folder: string;
  readonly affinity: boolean;
  readonly conversations: number;
}

interface Used {
  readonly prompt_tokens: number;
  readonly cache_read_tokens?: number;
}

const env = realEnv();
const logger = createLogger({ write: () => undefined, now: () => Date.now() });

async function startWorker(id: string, path: string): Promise<Worker> {
  const engine = new LlamaEngine({
    env,
    path,
    slots: SLOTS,
    contextLength: CONTEXT,
    gpu: 'off',
    threads: 1,
  });
  const worker = new Worker({ env, logger, engine, id, modelRef: path, host: '127.0.0.1', port: 0 });
  await worker.start();
  await worker.loaded;
  return worker;
}

const backendOf = (name: string, worker: Worker, outbound: Outbound): ExecutorBackend =>
  new ExecutorBackend({
    info: {
      name,
      kind: 'worker',
      slots: SLOTS,
      types: ['inference'],
      models: ['tiny'],
      labels: {},
      paid: false,
      keepsResults: true,
      registry: worker.registry,
    },
    protocol: WORKER_PROTOCOL,
    target: outbound.to(worker.url),
    secret: undefined,
    timers: env.timers,
  });

interface Conversation {
  readonly name: string;
  readonly messages: { readonly role: string; readonly content: string }[];
}

/** The next turn of a conversation; returns what the engine has counted of it. */
async function say(brain: Orchestrator, { name, messages }: Conversation): Promise<Used> {
  const asked = QUESTION.repeat(messages.length === 0 ? TEXT_QUESTIONS : 1);
  messages.push({ role: 'user', content: `${name}.${messages.length}: ${asked}` });
  const payload = { messages: [...messages], max_tokens: 30, seed: messages.length };
  const { job_id } = await brain.submit({ type: 'inference', model: 'tiny', session_id: name, payload });
  const { state, result, error } = await brain.wait(job_id);
  if (state !== 'succeeded') throw new Error(`a turn has ended as ${state}: ${JSON.stringify(error)}`);
  const { text, usage } = result as { text: string; usage: Used };
  messages.push({ role: 'assistant', content: text });
  return usage;
}

/** The conversations of LIVE people: each of them TURNS times, in a random order. */
function turnsOf(first: number, random: Random): readonly Conversation[] {
  const live = Array.from(
    { length: LIVE },
    (_, at): Conversation => ({ name: `c${first + at}`, messages: [] }),
  );
  return live
    .flatMap((each) => Array.from({ length: TURNS }, () => ({ each, at: random.next() })))
    .toSorted((a, b) => a.at - b.at)
    .map(({ each }) => each);
}

export async function measure({ folder, affinity, conversations }: Args): Promise<Values> {
  mkdirSync(folder);
  const file = join(folder, 'tiny.gguf');
  writeTinyModel(file, { contextLength: CONTEXT });
  const outbound = new Outbound({ timers: env.timers });
  const workers = await Promise.all(WORKERS.map((id) => startWorker(id, file)));
  const brain = await createOrchestrator({
    logger,
    data: 'memory',
    config: `orchestrator: {sticky: {enabled: ${affinity}}}\n`,
    backends: workers.map((worker, at) => backendOf(WORKERS[at] as string, worker, outbound)),
  });
  const counts: Used[] = [];
  const random = seededRandom(1);
  for (let done = 0; done < conversations; done += LIVE)
    for (const each of turnsOf(done, random)) counts.push(await say(brain, each));
  await brain.stop();
  for (const worker of workers) await worker.stop();
  rmSync(folder, { recursive: true });
  const prompt = counts.reduce((sum, { prompt_tokens }) => sum + prompt_tokens, 0);
  const held = counts.reduce((sum, { cache_read_tokens = 0 }) => sum + cache_read_tokens, 0);
  return { promptTokens: prompt, evaluatedTokens: prompt - held, turns: counts.length };
}

export const bench: Bench = {
  name: 'affinity',
  title: 'tokens of prompts that the engine evaluates in conversations of five turns, on two workers',
  rounds: 'every',
  async run({ quick, folder }) {
    const conversations = quick ? 4 * LIVE : 16 * LIVE;
    const rows = [];
    for (const affinity of [true, false]) {
      const args = { folder: join(folder, 'affinity'), affinity, conversations };
      const values = await inChild({ measure, url: import.meta.url }, args);
      rows.push({ case: `turns, affinity ${affinity ? 'on' : 'off'}`, values });
    }
    return rows;
  },
};
