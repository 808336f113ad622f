/** The official client of the protocol, an optional peer: it is loaded when the first server is connected. */
import { OrchdError } from '../../model/errors.ts';

export type McpLibrary = typeof import('@modelcontextprotocol/client');

export async function loadClient(): Promise<McpLibrary> {
  try {
    return await import('@modelcontextprotocol/client');
  } catch (error) {
    const message =
      'MCP servers need the package "@modelcontextprotocol/client": npm install @modelcontextprotocol/client';
    throw new OrchdError('CONFIG_INVALID', message, {}, { cause: error });
  }
}
