/** `orchd modules [scan NAME]` */
import type { ModuleView } from '../../model/http/modules.ts';
import { flagOf, oneOf, singlePositional } from '../arguments.ts';
import { type Command, EXIT } from '../command.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';
import { connect } from '../remote.ts';
import { modulesText } from '../text/module-text.ts';

const WORDS = ['scan'] as const;

const options = {
  ...SERVER_OPTIONS,
  json: { type: 'boolean', help: 'print one JSON object per line, one for each module' },
} as const;

export const modules: Command = {
  usage: usageOf({
    call: 'modules | modules scan NAME [OPTIONS]',
    about: `Lists the modules of the configuration, which propose jobs: state, when the next scan comes, what became of the proposals
since the server started, and what went wrong last. scan starts a scan at once.`,
    options,
    examples: ['orchd modules', 'orchd modules scan documenter', `orchd modules --json | jq .last_error`],
  }),
  options,
  words: WORDS,
  async run(args, terminal) {
    const [word, ...rest] = args.positionals;
    const client = connect(args);
    let list: readonly ModuleView[];
    if (word === undefined) list = await client.modules();
    else {
      oneOf(word, 'the action', WORDS);
      list = [await client.scanModule(singlePositional(rest, 'name'))];
    }
    if (flagOf(args.values, 'json')) for (const each of list) terminal.printData(JSON.stringify(each));
    else if (list.length === 0) terminal.complain('no modules: `modules` in the configuration names them.');
    else {
      const width = terminal.isPerson ? terminal.columns || undefined : undefined;
      terminal.print(modulesText(list, width, Date.now()));
    }
    return EXIT.ok;
  },
};
