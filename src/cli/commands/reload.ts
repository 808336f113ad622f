/** `orchd reload` */
import type { ReloadReport } from '../../model/http/reload.ts';
import { flagOf, noPositionals } from '../arguments.ts';
import { type Command, EXIT } from '../command.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';
import { connect } from '../remote.ts';

const options = { ...SERVER_OPTIONS } as const;

export const reload: Command = {
  usage: usageOf({
    call: 'reload [OPTIONS]',
    about: `Has the server read its configuration file again. Seats, gateways, modules and schedules are added, changed and removed
while it runs; other settings that have changed are named, and take effect at the next start. If anything in the file is
wrong, nothing changes at all.`,
    options,
    examples: ['orchd reload', 'orchd reload --json | jq .restart_needed'],
  }),
  options,
  async run(args, terminal) {
    noPositionals(args.positionals);
    const report = await connect(args).reload();
    if (flagOf(args.values, 'json')) terminal.printData(JSON.stringify(report));
    else terminal.print(reloadText(report));
    return EXIT.ok;
  },
};

function reloadText({ changes, restart_needed, leads }: ReloadReport): string {
  const lines = changes.flatMap(({ section, added, changed, removed }) =>
    Object.entries({ added, changed, removed })
      .filter(([, names]) => names.length > 0)
      .map(([what, names]) => `${section}: ${what} ${names.join(', ')}`),
  );
  return [
    ...(lines.length > 0 ? lines : ['nothing has changed']),
    ...restart_needed.map((key) => `${key}: has changed, and takes effect at the next start`),
    ...(leads ? [] : ['this node does not lead: it uses the changes once it does']),
  ].join('\n');
}
