/** `orchd mcp` */
import { noPositionals } from '../arguments.ts';
import { type Command, EXIT } from '../command.ts';
import { type Options, SERVER_OPTIONS, usageOf } from '../options.ts';
import { packageVersion } from '../package-version.ts';
import { connect } from '../remote.ts';

const { url, token } = SERVER_OPTIONS;
const options = { url, token } as const satisfies Options;

export const mcp: Command = {
  usage: usageOf({
    call: 'mcp [OPTIONS]',
    about: `Serves the Model Context Protocol on standard input and output, for an assistant that starts it: with its tools the
assistant submits jobs, starts runs of agents and collects their results later. It talks to a server as every command
does, and keeps nothing itself. docs/mcp.md says how to add it to the configuration of an assistant.`,
    options,
    examples: ['orchd mcp', 'orchd mcp --url http://brain.example:8080'],
  }),
  options,
  async run(args, terminal) {
    noPositionals(args.positionals);
    const client = connect(args);
    if (process.stdin.isTTY)
      terminal.complain('orchd mcp: waits for messages of an MCP client on standard input; Ctrl-D ends it.');
    const [{ McpStdio }, { realEnv }, { randomId }] = await Promise.all([
      import('../mcp-stdio.ts'),
      import('../../kit/env/real.ts'),
      import('../../client/submit-lines.ts'),
    ]);
    const { clock, timers } = realEnv();
    const exchange = {
      version: packageVersion(),
      brain: client,
      clock,
      timers,
      newId: randomId,
      // The server knows the role of the token: it refuses what the role does not permit.
      mayUse: () => true,
    };
    await new McpStdio({ input: process.stdin, write: (line) => terminal.write(line), exchange }).run();
    return EXIT.ok;
  },
};
