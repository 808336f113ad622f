/** `orchd models` */
import { flagOf, noPositionals } from '../arguments.ts';
import { type Command, EXIT } from '../command.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';
import { connect } from '../remote.ts';
import { detailedRows } from '../text/model-text.ts';
import { tableText } from '../text/table.ts';

const options = {
  ...SERVER_OPTIONS,
  json: { type: 'boolean', help: 'print one JSON object per line, one for each model' },
} as const;

const HEADINGS = ['MODEL', 'STATE', 'CONTEXT', 'WORKERS', 'SLOTS', 'WAITING', 'FROM'];

export const models: Command = {
  usage: usageOf({
    call: 'models [OPTIONS]',
    about: `Lists the models that jobs can name: those of the catalog, and those that a backend offers by itself.
STATE is ready, starting, idle (a worker is started when a job comes), failing (the last start failed), retired, or down.`,
    options,
    examples: ['orchd models', `orchd models --json | jq -r 'select(.state == "ready").name'`],
  }),
  options,
  async run(args, terminal) {
    noPositionals(args.positionals);
    const { models: list } = await connect(args).status();
    if (flagOf(args.values, 'json')) {
      for (const model of list) terminal.printData(JSON.stringify(model));
    } else if (list.length === 0) {
      terminal.complain('no models: `orchd up --model FILE.gguf` brings one, and so does the catalog.');
    } else {
      const width = terminal.isPerson ? terminal.columns || undefined : undefined;
      terminal.print(tableText(HEADINGS, detailedRows(list), { width }));
    }
    return EXIT.ok;
  },
};
