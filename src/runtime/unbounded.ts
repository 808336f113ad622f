/**
 * Finds what in a payload may make a provider charge for more than the bytes of the payload and `max_tokens`: several
 * answers, files and sounds, tools that the provider runs, texts that it has stored. The drivers of orchd send none of
 * it, but other executors get the payload as it is. Only fields that are known to cost nothing beside their bytes are
 * allowed: nobody can say what an unknown one costs.
 */

const MAX_NAME_CHARS = 40;
const MAX_FIELDS = 200;

type Fields = Readonly<Record<string, unknown>>;

/** Whether a field with this value, which is not null, is within the bound. */
type Rule = (value: unknown, maxTokens: number) => boolean;

const any: Rule = () => true;
const isOne: Rule = (value) => value === 1;
const isWithin: Rule = (value, maxTokens) => Number.isInteger(value) && (value as number) <= maxTokens;
const oneOf =
  (...values: unknown[]): Rule =>
  (value) =>
    values.includes(value);
const isShortCache: Rule = (value) => {
  const { ttl = null } = fieldsOf(value);
  // A cache that lasts longer is dearer to write than the price of a model can say.
  return ttl === null || ttl === '5m';
};
const isOnePrompt: Rule = (value) =>
  typeof value === 'string' || (Array.isArray(value) && value.length === 1 && typeof value[0] === 'string');
/** An object whose count of tokens, if it has one, is within the bound. */
const hasCountWithin =
  (name: string): Rule =>
  (value, maxTokens) => {
    const { [name]: count = null } = fieldsOf(value);
    return count === null || isWithin(count, maxTokens);
  };

const names = (list: string): Readonly<Record<string, Rule>> =>
  Object.fromEntries(list.split(' ').map((name) => [name, any]));

const PAYLOAD: ReadonlyMap<string, Rule> = new Map(
  Object.entries({
    ...names(
      'messages input raw_prompt model job_id session_id max_tokens temperature top_p top_k min_p seed stop',
    ),
    ...names(
      'tools tool_choice parallel_tool_calls functions function_call response_format reasoning_effort',
    ),
    ...names(
      'frequency_penalty presence_penalty repetition_penalty logit_bias logprobs top_logprobs verbosity',
    ),
    ...names('stream stream_options user metadata store safety_identifier prompt_cache_key instructions'),
    ...names('encoding_format dimensions'),
    prompt: isOnePrompt,
    n: isOne,
    best_of: isOne,
    max_completion_tokens: isWithin,
    max_output_tokens: isWithin,
    thinking: hasCountWithin('budget_tokens'),
    reasoning: hasCountWithin('max_tokens'),
    modalities: (value) => Array.isArray(value) && value.every((each) => each === 'text'),
    service_tier: oneOf('auto', 'default', 'standard', 'standard_only', 'flex'),
    cache_control: isShortCache,
  } satisfies Record<string, Rule>),
);

const TOOL: ReadonlyMap<string, Rule> = new Map(
  Object.entries({ ...names('function strict'), type: oneOf('function'), cache_control: isShortCache }),
);

const MESSAGE: ReadonlyMap<string, Rule> = new Map(
  Object.entries({
    ...names('role content name tool_calls tool_call_id function_call refusal reasoning reasoning_content'),
    ...names('annotations'),
    cache_control: isShortCache,
  }),
);

const TEXT_PART: ReadonlyMap<string, Rule> = new Map(
  Object.entries({
    ...names('text refusal annotations logprobs'),
    type: oneOf('text', 'refusal', 'input_text', 'output_text'),
    cache_control: isShortCache,
  }),
);

const IMAGE_PART: ReadonlyMap<string, Rule> = new Map(
  Object.entries({
    ...names('image_url detail'),
    type: oneOf('image_url', 'input_image'),
    cache_control: isShortCache,
  }),
);

/** The name of a field of the payload that is not bounded; undefined without one. */
export function unboundedField(payload: Fields, maxTokens: number): string | undefined {
  const field = unknownIn(payload, PAYLOAD, maxTokens);
  if (field !== undefined) return field;
  const tools = payload['tools'] ?? [];
  if (!Array.isArray(tools)) return 'tools';
  const at = tools.findIndex((tool) => unknownIn(fieldsOf(tool), TOOL, maxTokens) !== undefined);
  return at < 0 ? undefined : `tools.${at}`;
}

/** What an object in the content of a payload is; `by` is the type of a part, or the field, that nobody knows the cost of. */
export type ContentKind =
  | { readonly is: 'message' | 'text' | 'image' }
  | { readonly is: 'unbounded'; readonly by: string };

const MESSAGE_KIND: ContentKind = { is: 'message' };
const TEXT_KIND: ContentKind = { is: 'text' };
const IMAGE_KIND: ContentKind = { is: 'image' };

export function contentKind(value: Fields): ContentKind {
  const isMessage = 'role' in value || 'content' in value;
  const isImage = 'image_url' in value || value['type'] === 'image_url' || value['type'] === 'input_image';
  const known = isMessage ? MESSAGE : isImage ? IMAGE_PART : TEXT_PART;
  const by = unknownIn(value, known, 0);
  if (by !== undefined) return { is: 'unbounded', by: by === 'type' ? nameOf(value[by]) : by };
  return isMessage ? MESSAGE_KIND : isImage ? IMAGE_KIND : TEXT_KIND;
}

const nameOf = (type: unknown): string => (typeof type === 'string' ? type.slice(0, MAX_NAME_CHARS) : 'type');

/** The first field that is not in the table, or whose value is against its rule. */
function unknownIn(fields: Fields, known: ReadonlyMap<string, Rule>, maxTokens: number): string | undefined {
  const given = Object.keys(fields);
  // An object with more fields than are known has unknown ones; it is not looked through, however large it is.
  if (given.length > MAX_FIELDS) return given[MAX_FIELDS];
  for (const name of given) {
    const value = fields[name];
    if (value === null || value === undefined) continue;
    const rule = known.get(name);
    if (!rule?.(value, maxTokens)) return name;
  }
  return undefined;
}

const fieldsOf = (value: unknown): Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {};
