/** `orchd tools [SERVER__TOOL | allow SERVER__TOOL]` */
import type { McpServerView, McpToolView } from '../../model/http/mcp-servers.ts';
import { flagOf, singlePositional, textOf } from '../arguments.ts';
import { type CliArguments, type Command, EXIT, type Terminal } from '../command.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';
import { UnknownId } from '../refusal.ts';
import { connect } from '../remote.ts';
import { oneLine } from '../text/screen.ts';

const WORDS = ['allow'] as const;

const options = {
  hash: { type: 'string', value: 'HASH', help: 'allow only the definition with this hash' },
  ...SERVER_OPTIONS,
} as const;

export const tools: Command = {
  usage: usageOf({
    call: 'tools | tools SERVER__TOOL | tools allow SERVER__TOOL [OPTIONS]',
    about: `Lists the MCP servers and their tools; with a name, shows the definition that was allowed and, if the server has changed
it, the one that it offers by now. allow allows that one: until then the tool is not called.`,
    options,
    examples: ['orchd tools', 'orchd tools files__read_file', 'orchd tools allow files__read_file'],
  }),
  options,
  words: WORDS,
  async run(args, terminal) {
    const [word, ...rest] = args.positionals;
    if (word === 'allow') return allow(singlePositional(rest, 'tool'), args, terminal);
    const { servers } = await connect(args).mcpServers();
    if (word !== undefined)
      return showTool(singlePositional(args.positionals, 'tool'), servers, args, terminal);
    if (flagOf(args.values, 'json')) terminal.printData(JSON.stringify({ servers }));
    else if (servers.length === 0) terminal.complain('there are no MCP servers in the configuration.');
    else for (const server of servers) terminal.print(serverText(server));
    return EXIT.ok;
  },
};

interface Found {
  readonly server: string;
  readonly tool: McpToolView;
}

function find(name: string, servers: readonly McpServerView[]): Found {
  for (const { name: server, tools: all } of servers)
    for (const tool of all)
      if (tool.name === name || `${server}__${tool.tool}` === name) return { server, tool };
  throw new UnknownId(
    `no MCP server has a tool "${oneLine(name)}"`,
    '`orchd tools` lists those that there are.',
  );
}

async function allow(name: string, args: CliArguments, terminal: Terminal): Promise<number> {
  const client = connect(args);
  const { server, tool } = find(name, (await client.mcpServers()).servers);
  const hash = textOf(args.values, 'hash') ?? tool.offered?.hash;
  if (hash === undefined) {
    terminal.complain(`${oneLine(name)} has not changed: it is ${tool.state}.`);
    return EXIT.ok;
  }
  const view = await client.allowMcpTool(server, tool.tool, hash);
  if (flagOf(args.values, 'json')) terminal.printData(JSON.stringify(view));
  else terminal.print(`${oneLine(name)} is allowed as the server offers it now.`);
  return EXIT.ok;
}

function showTool(
  name: string,
  servers: readonly McpServerView[],
  args: CliArguments,
  terminal: Terminal,
): number {
  const { tool } = find(name, servers);
  if (flagOf(args.values, 'json')) terminal.printData(JSON.stringify(tool));
  else {
    terminal.print(`${toolText(tool)}\n  allowed: ${oneLine(JSON.stringify(tool.definition))}`);
    if (tool.offered) terminal.print(`  offered: ${oneLine(JSON.stringify(tool.offered.definition))}`);
  }
  return EXIT.ok;
}

function serverText({ name, transport, connected, last_error: why, tools: all }: McpServerView): string {
  const state = connected ? 'connected' : `not connected${why === undefined ? '' : `: ${oneLine(why)}`}`;
  return [`${oneLine(name)} (${transport}) ${state}`, ...all.map((tool) => `  ${toolText(tool)}`)].join('\n');
}

const toolText = ({ name, tool, state, effect }: McpToolView): string =>
  `${oneLine(name ?? `${tool} (a name that models cannot write)`)}  ${effect}  ${state}`;
