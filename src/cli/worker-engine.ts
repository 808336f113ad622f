/** Creates the engine that the options of `orchd worker` name. */
import { resolve } from 'node:path';
import { isHttpUrl } from '../config/address.ts';
import type { Engine } from '../daemons/execution/engine.ts';
import type { OpenAiOptions } from '../daemons/worker/openai-engine.ts';
import type { Env } from '../kit/env/env.ts';
import type { Logger } from '../kit/logger.ts';
import { Secret } from '../kit/secret.ts';
import { OrchdError } from '../model/errors.ts';
import { choiceOf, textOf, variable, wholeOf } from './arguments.ts';
import { type CliArguments, UsageError } from './command.ts';

export const ENGINES = ['demo', 'llama', 'openai'] as const;
export type EngineName = (typeof ENGINES)[number];

export interface EngineSettings {
  readonly env: Env;
  readonly logger: Logger;
  readonly engine: EngineName;
  readonly model: string;
}

const MAX_SLOTS = 1024;
const MAX_CONTEXT = 100_000_000;

export async function engineOf(
  { values }: CliArguments,
  { env, engine, model }: EngineSettings,
): Promise<Engine> {
  const slots = wholeOf(values, 'slots', 1, MAX_SLOTS) ?? 1;
  const contextLength = wholeOf(values, 'context', 1, MAX_CONTEXT);
  const adapter = textOf(values, 'adapter');
  if (adapter !== undefined && engine !== 'llama')
    throw new OrchdError('UNSUPPORTED', `the engine "${engine}" cannot apply an adapter`);
  if (engine === 'llama') {
    const { LlamaEngine } = await import('../daemons/worker/llama-engine.ts');
    const { GPU_CHOICES } = await import('../daemons/worker/llama-load.ts');
    const gpu = choiceOf(values, 'gpu', GPU_CHOICES) ?? 'auto';
    const threads = wholeOf(values, 'threads', 1, MAX_SLOTS);
    const files = { path: resolve(model), adapter: adapter && resolve(adapter) };
    return new LlamaEngine({ env, ...files, slots, contextLength, gpu, threads });
  }
  const variant = textOf(values, 'variant');
  if (engine === 'openai') return openAiOf(values, { env, model, variant, slots, contextLength });
  const { DemoEngine } = await import('../daemons/worker/demo-engine.ts');
  const delayMs = Number(variable('ORCHD_WORKER_DEMO_DELAY_MS') ?? 0) || 0;
  return new DemoEngine({ env, model, slots, contextLength: contextLength ?? 4096, delayMs });
}

async function openAiOf(
  values: CliArguments['values'],
  settings: Pick<OpenAiOptions, 'env' | 'model' | 'variant' | 'slots' | 'contextLength'>,
): Promise<Engine> {
  const url = textOf(values, 'upstream');
  const command = commandOf(textOf(values, 'upstream-command'));
  if (url === undefined && !command) {
    throw new UsageError(
      'the server is missing: give its address with --upstream, or start one with --upstream-command.',
    );
  }
  if (url !== undefined && !isHttpUrl(url.replaceAll('{port}', '1'))) {
    throw new UsageError(`--upstream needs an address like http://127.0.0.1:8000, not "${url}".`);
  }
  const key = variable('ORCHD_UPSTREAM_KEY');
  const { OpenAiEngine } = await import('../daemons/worker/openai-engine.ts');
  return new OpenAiEngine({
    ...settings,
    url,
    command,
    key: key === undefined ? undefined : new Secret(key),
  });
}

function commandOf(text: string | undefined): readonly string[] | undefined {
  if (text === undefined) return undefined;
  const words = jsonOf(text);
  if (Array.isArray(words) && words.length > 0 && words.every((word) => typeof word === 'string'))
    return words;
  throw new UsageError(
    '--upstream-command needs a JSON array of strings, such as ["server", "--port", "{port}"].',
  );
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
