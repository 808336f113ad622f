/** The records of the tools of MCP servers: what was allowed, and what still runs at a server. */

/**
 * The definition of a tool that may be called: the one that was seen first, or the one that a person has allowed since.
 * A server that offers another definition under this name is not called.
 */
export interface McpPinRecord {
  readonly v: 1;
  readonly server: string;
  /** As the server names it. */
  readonly tool: string;
  /** The hash of the whole definition. */
  readonly hash: string;
  /** The definition as JSON: models are told this one, whatever the server offers by now. */
  readonly definition: string;
  readonly at: number;
  /** Who has allowed it; FIRST_SEEN for a definition that nobody knew before. */
  readonly by: string;
}

export type McpDefinition = Pick<McpPinRecord, 'server' | 'tool' | 'hash' | 'definition'>;

export const FIRST_SEEN = 'first-seen';

/** A call that a server runs as a task: it is found again by this id after a restart. The token is the id of the record. */
export interface McpTaskRecord {
  readonly v: 1;
  readonly server: string;
  readonly taskId: string;
  readonly at: number;
}

export const pinId = (server: string, tool: string): string => `${server}/${tool}`;

/** The longest definition, as JSON: definitions are kept in memory, and models are told of them in every request. */
export const MAX_DEFINITION_CHARS = 32 * 1024;
/** Tools of all servers together. */
export const MAX_PINS = 10_000;
