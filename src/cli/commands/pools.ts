/** `orchd pools` */
import { flagOf, noPositionals } from '../arguments.ts';
import { type Command, EXIT } from '../command.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';
import { connect } from '../remote.ts';
import { poolsText } from '../text/pool-text.ts';

const options = {
  ...SERVER_OPTIONS,
  json: { type: 'boolean', help: 'print one JSON object per line, one for each pool' },
} as const;

export const pools: Command = {
  usage: usageOf({
    call: 'pools [OPTIONS]',
    about: `Lists the pools with their address, their devices and free memory, and their workers: model, state, slots in use, and
why each was started.`,
    options,
    examples: ['orchd pools', `orchd pools --json | jq -r '.workers[].model_ref'`],
  }),
  options,
  async run(args, terminal) {
    noPositionals(args.positionals);
    const list = await connect(args).pools();
    if (flagOf(args.values, 'json')) for (const pool of list) terminal.printData(JSON.stringify(pool));
    else if (list.length === 0)
      terminal.complain('no pools: `orchd pool --brain URL` on a machine with GPUs registers one.');
    else terminal.print(poolsText(list, terminal, Date.now()));
    return EXIT.ok;
  },
};
