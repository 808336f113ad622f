/** `orchd routes [set NAME FILE | delete NAME]` */
import type { RouteView } from '../../model/http/routes.ts';
import { flagOf, oneOf, singlePositional } from '../arguments.ts';
import { type CliArguments, type Command, EXIT, type Terminal, UsageError } from '../command.ts';
import { yamlFile } from '../json-argument.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';
import { connect } from '../remote.ts';
import { routeText } from '../text/route-text.ts';

const WORDS = ['set', 'delete'] as const;

const options = {
  ...SERVER_OPTIONS,
  json: { type: 'boolean', help: 'print one JSON object per line, one for each route' },
} as const;

export const routes: Command = {
  usage: usageOf({
    call: 'routes | routes set NAME FILE | routes delete NAME [OPTIONS]',
    about: `Lists the routes: names that jobs use like a model, for ordered lists of models.
set reads the steps from FILE (- for standard input), in YAML or JSON: a list \`steps\`, each with a model and with \`on\`,
the reasons for which a job goes on to the next one.`,
    options,
    examples: ['orchd routes', 'orchd routes set fast fast.yaml', 'orchd routes delete fast'],
  }),
  options,
  words: WORDS,
  async run(args, terminal) {
    const [word, ...rest] = args.positionals;
    const client = connect(args);
    if (word === undefined) return show(await client.routes(), args, terminal);
    if (oneOf(word, 'the action', WORDS) === 'delete') {
      await client.deleteRoute(singlePositional(rest, 'name'));
      return EXIT.ok;
    }
    const [name, ...files] = rest;
    if (name === undefined) throw new UsageError('the name is missing.');
    const steps = await stepsIn(singlePositional(files, 'file'));
    return show([await client.setRoute(name, steps)], args, terminal);
  },
};

/** The steps are checked by the server; only the form of the file is checked here. */
async function stepsIn(file: string): Promise<RouteView['steps']> {
  const { value, label } = await yamlFile(file);
  const steps: unknown = (value as { steps?: unknown } | null)?.steps;
  if (!Array.isArray(steps)) throw new UsageError(`${label} has no list \`steps\`.`);
  return steps as RouteView['steps'];
}

function show(list: readonly RouteView[], args: CliArguments, terminal: Terminal): number {
  if (flagOf(args.values, 'json')) for (const each of list) terminal.printData(JSON.stringify(each));
  else if (list.length === 0) terminal.complain('no routes: `orchd routes set NAME FILE` makes one.');
  else for (const each of list) terminal.print(routeText(each));
  return EXIT.ok;
}
