/** Reads and checks the body of `POST /execute` completely, so that an invalid request fails before work begins. */
import { OrchdError } from '../../model/errors.ts';
import type {
  AnswerFormat,
  ChatMessage,
  InferenceRequest,
  Tool,
  ToolChoice,
  Work,
} from '../../model/inference.ts';
import type { ExecuteRequest } from '../../model/worker-wire.ts';

export type * from '../../model/inference.ts';

/** The parts that a message may have: only texts, or also images and others, for a server that gets them unchanged. */
export type ContentParts = 'text' | 'any';

/** The same limit as OpenAI's; each text becomes an embedding in the result. */
const MAX_TEXTS = 2048;
const MAX_STOPS = 16;
const MAX_TOOLS = 128;

export function readInferenceRequest(body: ExecuteRequest, parts: ContentParts = 'text'): InferenceRequest {
  const tools = (body.tools ?? []).map(readTool);
  if (tools.length > MAX_TOOLS) throw invalid('tools', `has more than ${MAX_TOOLS} entries`);
  const stop = typeof body.stop === 'string' ? [body.stop] : (body.stop ?? []);
  if (stop.length > MAX_STOPS) throw invalid('stop', `has more than ${MAX_STOPS} entries`);
  if (body.max_tokens === 0) throw invalid('max_tokens', 'must be at least 1');
  checkRange('temperature', body.temperature, 0, 2);
  checkRange('top_p', body.top_p, 0, 1);
  return {
    jobId: body.job_id,
    sessionId: body.session_id === '' ? undefined : body.session_id,
    work: readWork(body, parts),
    maxTokens: body.max_tokens ?? undefined,
    temperature: body.temperature ?? undefined,
    topP: body.top_p ?? undefined,
    seed: body.seed ?? undefined,
    stop: stop.filter((text) => text !== ''),
    tools,
    toolChoice: readChoice(body.tool_choice, tools),
    format: readFormat(body.response_format),
    body,
  };
}

function readWork(body: ExecuteRequest, parts: ContentParts): Work {
  const { prompt, messages, input } = body;
  const given = [prompt, messages, input].filter((part) => part !== undefined).length;
  if (given !== 1) {
    throw new OrchdError('INVALID_PARAMS', 'exactly one of "prompt", "messages" and "input" is needed', {
      field: 'prompt',
    });
  }
  if (messages) {
    if (messages.length === 0) throw invalid('messages', 'is empty');
    return { kind: 'chat', messages: messages.map((message, at) => readMessage(message, at, parts)) };
  }
  if (input !== undefined) {
    const texts = typeof input === 'string' ? [input] : input;
    if (texts.length === 0) throw invalid('input', 'is empty');
    if (texts.length > MAX_TEXTS) throw invalid('input', `has more than ${MAX_TEXTS} texts`);
    return { kind: 'embeddings', texts };
  }
  const [first, ...more] = typeof prompt === 'string' ? [prompt] : (prompt ?? []);
  if (first === undefined) throw invalid('prompt', 'is empty');
  if (more.length > 0) throw new OrchdError('UNSUPPORTED', 'one prompt is answered at a time');
  return { kind: 'completion', prompt: first };
}

const ROLES: ReadonlyMap<unknown, ChatMessage['role']> = new Map([
  ['system', 'system'],
  ['developer', 'system'],
  ['user', 'user'],
  ['assistant', 'assistant'],
  ['tool', 'tool'],
]);

function readMessage(
  message: Readonly<Record<string, unknown>>,
  at: number,
  parts: ContentParts,
): ChatMessage {
  const field = `messages.${at}`;
  const role = ROLES.get(message['role']);
  if (role === undefined) throw invalid(`${field}.role`, 'is not known');
  const calls = message['tool_calls'] ?? [];
  if (!Array.isArray(calls)) throw invalid(`${field}.tool_calls`, 'must be a list');
  const callId = message['tool_call_id'];
  return {
    role,
    text: readContent(message['content'], `${field}.content`, parts),
    calls: calls.map((call: unknown) => readCall(call, `${field}.tool_calls`)),
    callId: typeof callId === 'string' ? callId : undefined,
  };
}

/** Reads a text, or a list of parts, of which only the texts are read. */
function readContent(content: unknown, field: string, parts: ContentParts): string {
  if (content === undefined || content === null) return '';
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) throw invalid(field, 'must be a text or a list of parts');
  return content.map((part: unknown) => readPart(part, field, parts)).join('');
}

function readPart(part: unknown, field: string, parts: ContentParts): string {
  const { type, text } = (part ?? {}) as { type?: unknown; text?: unknown };
  if (type === 'text' && typeof text === 'string') return text;
  if (parts === 'any') return '';
  throw new OrchdError('UNSUPPORTED', `"${field}" may only have parts of the type "text"`, { field });
}

function readCall(call: unknown, field: string): ChatMessage['calls'][number] {
  const { id, function: called } = (call ?? {}) as { id?: unknown; function?: unknown };
  const { name, arguments: given } = (called ?? {}) as { name?: unknown; arguments?: unknown };
  if (typeof id !== 'string' || typeof name !== 'string' || typeof given !== 'string') {
    throw invalid(field, 'has an entry without id, name or arguments');
  }
  return { id, name, arguments: given };
}

function readTool(tool: Readonly<Record<string, unknown>>, at: number): Tool {
  const described = (tool['function'] ?? {}) as Readonly<Record<string, unknown>>;
  const { name, description, parameters } = described as Readonly<Record<string, unknown>>;
  if (tool['type'] !== 'function' || typeof name !== 'string' || !/^[A-Za-z0-9_-]{1,64}$/.test(name)) {
    throw invalid(`tools.${at}`, 'must be a function with a name');
  }
  if (parameters !== undefined && !isObject(parameters)) {
    throw invalid(`tools.${at}.function.parameters`, 'must be a JSON schema');
  }
  return { name, description: typeof description === 'string' ? description : undefined, parameters };
}

function readChoice(choice: unknown, tools: readonly Tool[]): ToolChoice {
  if (tools.length === 0) {
    if (choice === undefined || choice === null || choice === 'none' || choice === 'auto') return 'none';
    throw invalid('tool_choice', 'needs tools');
  }
  if (choice === undefined || choice === null || choice === 'auto') return 'auto';
  if (choice === 'none' || choice === 'required') return choice;
  const name = (choice as { function?: { name?: unknown } }).function?.name;
  const tool = tools.find((each) => each.name === name);
  if (!tool) throw invalid('tool_choice', 'names no tool that is given');
  return { name: tool.name };
}

function readFormat(format: unknown): AnswerFormat {
  if (format === undefined || format === null) return 'any';
  const { type, json_schema: described } = format as { type?: unknown; json_schema?: { schema?: unknown } };
  if (type === 'text') return 'any';
  if (type === 'json_object') return 'json';
  if (type !== 'json_schema') throw invalid('response_format', 'is not known');
  if (!isObject(described?.schema))
    throw invalid('response_format.json_schema.schema', 'must be a JSON schema');
  return { schema: described.schema };
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function checkRange(field: string, value: number | null | undefined, least: number, most: number): void {
  if (value === undefined || value === null || (value >= least && value <= most)) return;
  throw invalid(field, `must be from ${least} to ${most}`);
}

const invalid = (field: string, what: string): OrchdError =>
  new OrchdError('INVALID_PARAMS', `"${field}" ${what}`, { field });
