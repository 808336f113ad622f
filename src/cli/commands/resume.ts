/** `orchd resume SEAT…` */
import { flagOf } from '../arguments.ts';
import { type Command, EXIT, UsageError } from '../command.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';
import { connect } from '../remote.ts';
import { oneLine } from '../text/screen.ts';

const options = { ...SERVER_OPTIONS } as const;

export const resume: Command = {
  usage: usageOf({
    call: 'resume SEAT… [OPTIONS]',
    about: `Gives jobs again to seats that were paused because their provider billed more than the upper bound that a hard budget
had reserved. Correct the price first (message_overhead, request_overhead, image_tokens): otherwise it happens again.
\`orchd status\` lists the paused seats.`,
    options,
    examples: ['orchd resume claude-1'],
  }),
  options,
  async run(args, terminal) {
    if (args.positionals.length === 0) throw new UsageError('the name of the seat is missing.');
    const client = connect(args);
    for (const name of args.positionals) {
      const resumed = await client.resumeSeat(name);
      const { seat, was_paused } = resumed;
      if (flagOf(args.values, 'json')) terminal.printData(JSON.stringify(resumed));
      else terminal.print(`${oneLine(seat)} ${was_paused ? 'gets jobs again.' : 'was not paused.'}`);
    }
    return EXIT.ok;
  },
};
