/** Chooses the engine that runs a model, and builds the command line of its worker. */
import { fileURLToPath } from 'node:url';
import { OrchdError } from '../../model/errors.ts';
import type { ModelRef } from '../../model/model-ref.ts';
import type { EngineRule } from './config.ts';

export interface EngineChoice {
  readonly name: string;
  readonly args: readonly string[];
}

/**
 * Chooses by the configured rules first, then by the reference itself. `named` is the reference with its file pinned,
 * where the model has a file.
 */
export function engineFor(
  text: string,
  ref: ModelRef,
  named: string | undefined,
  rules: readonly EngineRule[],
): EngineChoice {
  const rule = ruleFor(text, rules);
  if (rule) return { name: rule.engine, args: rule.args ?? [] };
  if (ref.kind === 'engine' && ref.scheme === 'demo') return { name: 'demo', args: [] };
  if (named?.toLowerCase().endsWith('.gguf')) return { name: 'llama', args: [] };
  throw new OrchdError(
    'MODEL_NOT_FOUND',
    `no engine of this pool runs "${text}": see engines in its configuration`,
  );
}

export const ruleFor = (text: string, rules: readonly EngineRule[]): EngineRule | undefined =>
  rules.find(({ match }) => matches(match, text));

export const hasRule = (text: string, rules: readonly EngineRule[]): boolean =>
  ruleFor(text, rules) !== undefined;

const matches = (match: string, text: string): boolean =>
  match.endsWith('*') ? text.startsWith(match.slice(0, -1)) : text === match;

export const PLACEHOLDERS = [
  'id',
  'engine',
  'model',
  'file',
  'model_ref',
  'host',
  'slots',
  'context',
  'adapter',
  'variant',
  'gpu',
  'grace',
  'pool_manager',
] as const;

/** The values for a command line template. Where a value is undefined, its `--option` is left out too. */
export type Placeholders = Readonly<Record<(typeof PLACEHOLDERS)[number], string | undefined>>;

const WORKER_ARGS =
  'worker --id {id} --engine {engine} --model {model} --model-ref {model_ref} --adapter {adapter} --variant {variant} --host {host} --port 0 --slots {slots} --context {context} --gpu {gpu} --grace {grace} --pool-manager {pool_manager}';

/** Engines of `orchd worker` that cannot apply an adapter. */
const WITHOUT_ADAPTERS: ReadonlySet<string> = new Set(['demo', 'openai']);

/** Whether workers of this engine, started with this command line, apply an adapter. */
export const appliesAdapters = (engine: string, template: readonly string[]): boolean =>
  !WITHOUT_ADAPTERS.has(engine) && template.some((word) => word.includes('{adapter}'));

/** The default worker command: this program with the `worker` subcommand. */
export function ownWorkerCommand(): string[] {
  // The published build has .js files beside each other just as the source has .ts files.
  const main = import.meta.url.endsWith('.ts') ? '../../cli/main.ts' : '../../cli/main.js';
  return [process.execPath, fileURLToPath(new URL(main, import.meta.url)), ...WORKER_ARGS.split(' ')];
}

export function argvOf(template: readonly string[], values: Placeholders, args: readonly string[]): string[] {
  const argv: string[] = [];
  for (const item of template) {
    const name = /^\{(\w+)\}$/.exec(item)?.[1] as keyof Placeholders | undefined;
    if (name !== undefined && name in values && values[name] === undefined) {
      if (argv.at(-1)?.startsWith('--')) argv.pop();
      continue;
    }
    argv.push(item.replace(/\{(\w+)\}/g, (whole, key: string) => filled(whole, key, values)));
  }
  return [...argv, ...args];
}

/** The value of an option in a command line, the last one where it is given twice; undefined if it is no whole number. */
export function numberOption(args: readonly string[], name: string): number | undefined {
  const values = args.flatMap((word, at) => {
    if (word === name) return [args[at + 1] ?? ''];
    return word.startsWith(`${name}=`) ? [word.slice(name.length + 1)] : [];
  });
  const last = values.at(-1) ?? '';
  return /^[1-9]\d{0,8}$/.test(last) ? Number(last) : undefined;
}

const filled = (whole: string, key: string, values: Placeholders): string =>
  Object.hasOwn(values, key) ? (values[key as keyof Placeholders] ?? '') : whole;
