/** The engine that a command line of `orchd worker` names. */
import { resolve } from 'node:path';
import type { Engine } from '../daemons/worker/engine.ts';
import type { Env } from '../kit/env/env.ts';
import type { Logger } from '../kit/logger.ts';
import type { Given } from './command.ts';
import { choiceOf, variable, wholeOf } from './given.ts';

export const ENGINES = ['demo', 'llama'] as const;
export type EngineName = (typeof ENGINES)[number];

export interface EngineSettings {
  readonly env: Env;
  readonly logger: Logger;
  readonly engine: EngineName;
  readonly model: string;
}

const MAX_SLOTS = 1024;
const MAX_CONTEXT = 100_000_000;

export async function engineOf({ values }: Given, { env, engine, model }: EngineSettings): Promise<Engine> {
  const slots = wholeOf(values, 'slots', 1, MAX_SLOTS) ?? 1;
  const contextLength = wholeOf(values, 'context', 1, MAX_CONTEXT);
  if (engine === 'llama') {
    const { LlamaEngine } = await import('../daemons/worker/llama-engine.ts');
    const gpu = choiceOf(values, 'gpu', ['auto', 'off']) ?? 'auto';
    const threads = wholeOf(values, 'threads', 1, MAX_SLOTS);
    return new LlamaEngine({ env, path: resolve(model), slots, contextLength, gpu, threads });
  }
  const { DemoEngine } = await import('../daemons/worker/demo-engine.ts');
  const delayMs = Number(variable('ORCHD_WORKER_DEMO_DELAY_MS') ?? 0);
  return new DemoEngine({ env, model, slots, contextLength: contextLength ?? 4096, delayMs });
}
