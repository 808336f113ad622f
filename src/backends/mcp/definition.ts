/**
 * The definitions of tools as servers list them.
 *
 * H1  The hash is of the whole definition: name, descriptions, schemas, annotations and whatever else it has. A server that
 *     changes any of it offers another tool, whatever its name.
 */
import { stableHash } from '../../kit/hash.ts';
import { MAX_DEFINITION_CHARS } from '../../model/mcp-records.ts';
import type { ToolEffect } from '../../model/run-jobs.ts';
import type { McpServerSettings } from './settings.ts';

export interface ListedTool {
  readonly name: string;
  readonly description?: string;
  readonly inputSchema: Readonly<Record<string, unknown>>;
  readonly annotations?: { readonly readOnlyHint?: unknown; readonly idempotentHint?: unknown };
  /** Whether calls may be tasks, which outlive the connection. */
  readonly execution?: { readonly taskSupport?: unknown };
}

export interface LiveTool {
  readonly definition: ListedTool;
  /** The definition as JSON. */
  readonly text: string;
  readonly hash: string;
  /** The definition for the client, without the schema of results: those are not checked. */
  readonly forClient: Readonly<Record<string, unknown>>;
}

/** H1. Undefined for something that is no definition, or is too long to be kept. */
export function liveTool(listed: unknown): LiveTool | undefined {
  const { name, description, inputSchema } = (listed ?? {}) as Partial<ListedTool>;
  if (typeof name !== 'string' || name === '' || name.length > 128) return undefined;
  if (description !== undefined && typeof description !== 'string') return undefined;
  if (typeof inputSchema !== 'object' || inputSchema === null) return undefined;
  const text = JSON.stringify(listed);
  if (text.length > MAX_DEFINITION_CHARS) return undefined;
  const { outputSchema: _, ...forClient } = listed as Record<string, unknown>;
  return { definition: listed as ListedTool, text, hash: stableHash(listed), forClient };
}

const SEPARATOR = '__';
const TOOL_NAME = /^[A-Za-z0-9_-]{1,64}$/;

/** The name under which models call a tool; undefined where there is none that models can write. */
export function modelName(server: string, tool: string): string | undefined {
  const name = `${server}${SEPARATOR}${tool}`;
  return TOOL_NAME.test(name) ? name : undefined;
}

/** The names of the server and of its tool in the name that models call it by. */
export function namesIn(name: string): { readonly server: string; readonly tool: string } | undefined {
  const at = name.indexOf(SEPARATOR);
  if (at <= 0 || at + SEPARATOR.length === name.length) return undefined;
  return { server: name.slice(0, at), tool: name.slice(at + SEPARATOR.length) };
}

/** The hints of a server are its own words: they count only where the configuration says so. */
export function effectOf(
  { effects, trustHints }: Pick<McpServerSettings, 'effects' | 'trustHints'>,
  { name, annotations }: Pick<ListedTool, 'name' | 'annotations'>,
): ToolEffect {
  const set = Object.hasOwn(effects, name) ? effects[name] : undefined;
  if (set) return set;
  if (trustHints && annotations?.readOnlyHint === true) return 'pure';
  return trustHints && annotations?.idempotentHint === true ? 'idempotent' : 'effectful';
}
