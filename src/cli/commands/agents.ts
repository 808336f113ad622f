/** `orchd agents [NAME]` */
import type { AgentView } from '../../model/http/runs.ts';
import { flagOf, singlePositional } from '../arguments.ts';
import { type Command, EXIT } from '../command.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';
import { UnknownId } from '../refusal.ts';
import { connect } from '../remote.ts';
import { oneLine } from '../text/screen.ts';
import { tableText } from '../text/table.ts';

const options = {
  ...SERVER_OPTIONS,
  json: { type: 'boolean', help: 'print one JSON object per line, one for each agent' },
} as const;

const HEADINGS = ['AGENT', 'MODEL', 'VERSION', 'TOOLS', 'DESCRIPTION'];

export const agents: Command = {
  usage: usageOf({
    call: 'agents [NAME] [OPTIONS]',
    about: `Lists the agents of the configuration, or shows the one with this name: the model that it asks, its tools, and a version
that changes with its definition. \`orchd run NAME\` runs one.`,
    options,
    examples: ['orchd agents', 'orchd agents librarian', `orchd agents --json | jq -r .name`],
  }),
  options,
  async run(args, terminal) {
    const name = args.positionals.length === 0 ? undefined : singlePositional(args.positionals, 'name');
    const client = connect(args);
    const list = named(await client.agents(), name);
    if (flagOf(args.values, 'json')) for (const each of list) terminal.printData(JSON.stringify(each));
    else if (name !== undefined) for (const each of list) terminal.print(agentText(each));
    else if (list.length === 0) terminal.complain('no agents: `agents` in the configuration defines them.');
    else {
      const width = terminal.isPerson ? terminal.columns || undefined : undefined;
      terminal.print(tableText(HEADINGS, list.map(rowOf), { width }));
    }
    return EXIT.ok;
  },
};

function named(list: readonly AgentView[], name: string | undefined): readonly AgentView[] {
  if (name === undefined) return list;
  const found = list.filter((each) => each.name === name);
  if (found.length > 0) return found;
  throw new UnknownId(`there is no agent "${name}"`, '`orchd agents` lists the agents.');
}

/** A tool with `!` is a command that is not confined: each call of it must be allowed. */
const toolText = (tool: string, { unconfined = [] }: AgentView): string =>
  unconfined.includes(tool) ? `${tool}!` : tool;

const rowOf = (agent: AgentView): string[] => {
  const { name, model, version, tools, description = '' } = agent;
  return [name, model, version, tools.map((tool) => toolText(tool, agent)).join(',') || '-', description];
};

function agentText({ name, model, version, tools, unconfined = [], description }: AgentView): string {
  const lines = [
    ['model', model],
    ['tools', tools.join(', ') || 'none'],
    ...(unconfined.length === 0
      ? []
      : [['to allow', `${unconfined.join(', ')}: bubblewrap does not work there`]]),
    ['version', version],
    ...(description === undefined ? [] : [['about', description]]),
  ];
  return [
    oneLine(name),
    ...lines.map(([label = '', text = '']) => `  ${label.padEnd(8)} ${oneLine(text)}`),
  ].join('\n');
}
