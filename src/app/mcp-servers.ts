/** The MCP servers of the configuration. */
import { join, resolve } from 'node:path';
import { McpServers } from '../backends/mcp/servers.ts';
import { mcpSettings } from '../backends/mcp/settings.ts';
import type { McpServerConfig } from '../config/mcp.ts';
import type { ResolvedConfig } from '../config/resolve.ts';
import type { Env } from '../kit/env/env.ts';
import type { Logger } from '../kit/logger.ts';

export interface McpSurroundings {
  readonly env: Env;
  readonly logger: Logger | undefined;
  readonly data: string;
  readonly version?: string;
}

/** Undefined where there are none. Throws INVALID_PARAMS for a server that cannot be used. */
export function mcpServers(
  servers: ResolvedConfig['mcp'],
  { env, logger, data, version = '0' }: McpSurroundings,
): McpServers | undefined {
  const settings = mcpSettings(servers as readonly McpServerConfig[], process.env);
  if (settings.length === 0) return undefined;
  return new McpServers({ env, logger, settings, folder: join(resolve(data), 'mcp'), version });
}
