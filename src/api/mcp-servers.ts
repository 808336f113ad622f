/** The routes of MCP servers: their tools, and the allowing of a definition that has changed. */
import type { Agents } from '../agents/agents.ts';
import { OrchdError } from '../model/errors.ts';
import { AllowMcpTool, McpServerList, McpServerView } from '../model/http/mcp-servers.ts';
import { type Route, route } from '../wire/route.ts';

export const mcpRoutes = (agents: Agents): readonly Route[] => [
  route({
    operationId: 'listMcpServers',
    tag: 'agents',
    method: 'GET',
    path: '/v2/tools',
    role: 'read',
    scope: 'global',
    summary: 'The MCP servers, and the tools that agents may call there',
    answers: { 200: { description: 'The servers', body: McpServerList } },
    handle: async () => ({ status: 200, body: { servers: (await agents.mcp?.view()) ?? [] } }),
  }),
  route({
    operationId: 'allowMcpTool',
    tag: 'agents',
    method: 'POST',
    path: '/v2/tools/:id/allow',
    role: 'admin',
    scope: 'global',
    summary: 'Allow the definition of a tool that its server has changed',
    logsRefusals: true,
    body: AllowMcpTool,
    answers: {
      200: { description: 'The definition is allowed, and that is durable', body: McpServerView },
      404: 'No such server, or it offers no such tool',
      409: 'The server offers another definition than the one with this hash',
    },
    handle: async ({ params, body, identity }) => {
      const { mcp } = agents;
      const server = params['id'] ?? '';
      if (!mcp) throw new OrchdError('NOT_FOUND', `there is no MCP server "${server}"`);
      return { status: 200, body: await mcp.allow(server, body.tool, body.hash, identity.name) };
    },
  }),
];
