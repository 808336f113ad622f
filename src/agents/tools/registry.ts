/** The tools that agents may be given, by name. */
import { stableHash } from '../../kit/hash.ts';
import { didYouMean } from '../../kit/nearest.ts';
import { OrchdError } from '../../model/errors.ts';
import { type ArgumentsCheck, argumentsCheck, plainSchema } from './arguments.ts';
import type { JsonSchema, Tool } from './tool.ts';

/** A tool as models are told of it, in OpenAI's form. */
export interface ToolDefinition {
  readonly type: 'function';
  readonly function: {
    readonly name: string;
    readonly description: string;
    readonly parameters: JsonSchema;
  };
}

export interface RegisteredTool {
  readonly tool: Tool;
  /** Checks the text of arguments that a model wrote. */
  readonly check: ArgumentsCheck;
  readonly definition: ToolDefinition;
}

const NAME = /^[A-Za-z0-9_-]{1,64}$/;
const EFFECTS: readonly unknown[] = ['pure', 'idempotent', 'effectful'] satisfies Tool['effect'][];
/** Every request of an agent carries the descriptions of its tools. */
const MAX_DESCRIPTION_CHARS = 4000;

export class ToolSet {
  readonly #tools = new Map<string, RegisteredTool>();

  /** Throws INVALID_PARAMS for a tool that cannot be used, or whose name another one has. */
  constructor(tools: Iterable<Tool> = []) {
    for (const tool of tools) this.add(tool);
  }

  add(tool: Tool): void {
    const fault = faultOf(tool);
    if (fault) throw invalid(`a tool cannot be registered: ${fault.message}`, fault.field);
    if (this.#tools.has(tool.name)) throw invalid(`there are two tools with the name "${tool.name}"`, 'name');
    this.#tools.set(tool.name, registered(tool));
  }

  get names(): readonly string[] {
    return [...this.#tools.keys()];
  }

  get(name: string): RegisteredTool | undefined {
    return this.#tools.get(name);
  }

  /** The definitions of these tools, in the order of the names. Throws INVALID_PARAMS for a name that is unknown. */
  definitions(names: readonly string[] = this.names): readonly ToolDefinition[] {
    return names.map((name, at) => {
      const found = this.#tools.get(name);
      if (!found)
        throw invalid(`there is no tool "${name.slice(0, 64)}"${didYouMean(name, this.names)}`, 'tools');
      if (names.indexOf(name) !== at) throw invalid(`the tool "${name}" is named twice`, 'tools');
      return found.definition;
    });
  }
}

/** The same for the same definitions, whatever their order and that of their fields. */
export function definitionsHash(definitions: readonly ToolDefinition[]): string {
  return stableHash(Object.fromEntries(definitions.map((each) => [each.function.name, each])));
}

function registered(tool: Tool): RegisteredTool {
  const { name, description } = tool;
  const parameters = plainSchema(name, tool.parameters);
  const definition = { type: 'function', function: { name, description, parameters } } as const;
  return { tool, check: checkOf(tool, parameters), definition: deepFrozen(definition) };
}

function checkOf({ name, checkArguments }: Tool, parameters: JsonSchema): ArgumentsCheck {
  const check = argumentsCheck({ name, parameters });
  if (!checkArguments) return check;
  return (text) => {
    const checked = check(text);
    const message = checked.ok ? checkArguments(checked.args) : undefined;
    return message === undefined ? checked : { ok: false, message };
  };
}

interface ToolFault {
  readonly field: keyof Tool;
  readonly message: string;
}

/** Tools come from the program that embeds orchd, which may be JavaScript: their types are not certain. */
function faultOf(tool: Tool): ToolFault | undefined {
  const fault = (field: keyof Tool, message: string): ToolFault => ({ field, message });
  const { name, description, effect, timeoutMs, maxOutputBytes } = tool;
  if (typeof name !== 'string' || !NAME.test(name))
    return fault('name', 'its name must have 1 to 64 letters, digits, _ or -');
  if (typeof description !== 'string' || description === '' || description.length > MAX_DESCRIPTION_CHARS)
    return fault(
      'description',
      `the description of "${name}" must have 1 to ${MAX_DESCRIPTION_CHARS} characters`,
    );
  if (!EFFECTS.includes(effect))
    return fault('effect', `the effect of "${name}" must be pure, idempotent or effectful`);
  if (typeof tool.run !== 'function') return fault('run', `"${name}" has no function "run"`);
  if (!isPositive(timeoutMs)) return fault('timeoutMs', `timeoutMs of "${name}" must be a positive number`);
  if (!isPositive(maxOutputBytes))
    return fault('maxOutputBytes', `maxOutputBytes of "${name}" must be a positive number`);
  return undefined;
}

const isPositive = (value: unknown): boolean =>
  value === undefined || (typeof value === 'number' && Number.isFinite(value) && value > 0);

const invalid = (message: string, field: string): OrchdError =>
  new OrchdError('INVALID_PARAMS', message, { field });

/** Definitions are shared by all requests of all agents, so nobody may change them. */
function deepFrozen<T>(value: T): T {
  if (value !== null && typeof value === 'object') {
    for (const child of Object.values(value)) deepFrozen(child);
    Object.freeze(value);
  }
  return value;
}
