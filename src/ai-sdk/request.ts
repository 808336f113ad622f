/** A call of the AI SDK as the payload of a job, in the form in which `/v1` and agents submit theirs. */
import type { LanguageModelV4CallOptions } from '@ai-sdk/provider';
import type { SubmitRequest } from '../model/submit.ts';
import { AGENT, PRIORITY, SESSION } from '../wire/headers.ts';
import { messagesOf } from './messages.ts';
import { NAMESPACE, Warnings } from './warnings.ts';

/** The options of a job that a program may set; the others are set by the call itself. */
export type JobOptions = Omit<
  SubmitRequest,
  | 'job_id'
  | 'type'
  | 'model'
  | 'payload'
  | 'prompt'
  | 'messages'
  | 'max_tokens'
  | 'temperature'
  | 'seed'
  | 'key'
>;

/** `providerOptions.orchd` of a call. */
export interface CallSettings {
  /** The run of this call, instead of that of the provider. */
  readonly run?: unknown;
  readonly job?: JobOptions;
  /** Further fields of the payload, such as `min_p` or `parallel_tool_calls`. */
  readonly payload?: Readonly<Record<string, unknown>>;
}

export interface CallRequest {
  readonly payload: Readonly<Record<string, unknown>>;
  readonly settings: CallSettings;
  readonly warnings: Warnings;
}

const SETTINGS: ReadonlySet<string> = new Set(['run', 'job', 'payload'] satisfies (keyof CallSettings)[]);

/** What a call says and its payload says too, by both names. */
const FIELDS = [
  ['maxOutputTokens', 'max_tokens'],
  ['temperature', 'temperature'],
  ['topP', 'top_p'],
  ['topK', 'top_k'],
  ['presencePenalty', 'presence_penalty'],
  ['frequencyPenalty', 'frequency_penalty'],
  ['seed', 'seed'],
] as const satisfies readonly (readonly [keyof LanguageModelV4CallOptions, string])[];

/** Fields of a call that this file reads, beside FIELDS. */
const READ: ReadonlySet<string> = new Set([
  ...FIELDS.map(([name]) => name),
  'prompt',
  'stopSequences',
  'responseFormat',
  'tools',
  'toolChoice',
  'reasoning',
  'includeRawChunks',
  'abortSignal',
  'headers',
  'providerOptions',
] satisfies (keyof LanguageModelV4CallOptions)[]);

export function callRequest(options: LanguageModelV4CallOptions): CallRequest {
  const warnings = new Warnings();
  const own = warnings.ownOptions(options.providerOptions);
  for (const name of Object.keys(own))
    if (!SETTINGS.has(name)) warnings.unsupported(`providerOptions.${NAMESPACE}.${name}`, 'it is unknown');
  for (const [name, value] of Object.entries(options))
    if (!READ.has(name) && value !== undefined) warnings.unsupported(name, 'it is unknown to this version');
  const { stopSequences: stop = [], reasoning = 'provider-default' } = options;
  const settings = own as CallSettings;
  const payload = {
    messages: messagesOf(options.prompt, warnings),
    ...numbersOf(options),
    ...(stop.length > 0 && { stop }),
    ...(reasoning !== 'provider-default' && { reasoning_effort: reasoning }),
    ...toolsOf(options, warnings),
    ...formatOf(options),
    ...settings.payload,
  };
  return {
    payload,
    settings: { ...settings, job: { ...headerOptions(options, warnings), ...settings.job } },
    warnings,
  };
}

const numbersOf = (options: LanguageModelV4CallOptions): object =>
  Object.fromEntries(
    FIELDS.flatMap(([name, field]) => (options[name] === undefined ? [] : [[field, options[name]]])),
  );

function toolsOf({ tools = [], toolChoice }: LanguageModelV4CallOptions, warnings: Warnings): object {
  const given = tools.flatMap((tool) => {
    if (tool.type === 'provider') {
      warnings.unsupported(`provider tool ${tool.id}`, 'queued models run no tools of a provider');
      return [];
    }
    const { name, description, inputSchema: parameters, strict } = tool;
    if (tool.inputExamples !== undefined)
      warnings.unsupported('inputExamples of tools', 'put them into the description');
    const fields = warnings.ownOptions(tool.providerOptions);
    const called = {
      name,
      ...(description !== undefined && { description }),
      parameters,
      ...(strict !== undefined && { strict }),
    };
    return [{ type: 'function', function: called, ...fields }];
  });
  if (given.length === 0) return {};
  const choice = toolChoice?.type === 'tool' ? named(toolChoice.toolName) : toolChoice?.type;
  return { tools: given, ...(choice !== undefined && { tool_choice: choice }) };
}

const named = (name: string): object => ({ type: 'function', function: { name } });

function formatOf({ responseFormat: format }: LanguageModelV4CallOptions): object {
  if (format?.type !== 'json') return {};
  const { schema, name = 'response', description } = format;
  if (schema === undefined) return { response_format: { type: 'json_object' } };
  const described = { name, ...(description !== undefined && { description }), schema, strict: true };
  return { response_format: { type: 'json_schema', json_schema: described } };
}

/** Headers that set options of a job at `/v1` do so here too. */
const JOB_OPTION_OF: ReadonlyMap<string, keyof JobOptions> = new Map([
  [SESSION, 'session_id'],
  [PRIORITY, 'priority'],
  [AGENT, 'agent'],
]);

/** A header that the AI SDK adds to every call. */
const USER_AGENT = 'user-agent';

function headerOptions({ headers = {} }: LanguageModelV4CallOptions, warnings: Warnings): JobOptions {
  const found: Record<string, string> = {};
  for (const [given, value] of Object.entries(headers)) {
    const name = given.toLowerCase();
    if (value === undefined || name === USER_AGENT) continue;
    const option = JOB_OPTION_OF.get(name);
    if (option === undefined) warnings.unsupported(`header ${name}`, 'a job of the queue has no such header');
    else found[option] = value;
  }
  return found;
}
