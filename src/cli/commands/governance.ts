/** `orchd governance [set MODE --why TEXT]` */

import { MODES } from '../../model/governance.ts';
import type { GovernanceView } from '../../model/http/governance.ts';
import { flagOf, oneOf, singlePositional, textOf } from '../arguments.ts';
import { type CliArguments, type Command, EXIT, type Terminal, UsageError } from '../command.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';
import { connect } from '../remote.ts';
import { governanceLines } from '../text/governance-text.ts';

const WORDS = ['set'] as const;

const options = {
  ...SERVER_OPTIONS,
  why: { type: 'string', value: 'TEXT', help: 'with set: the reason, which everybody who waits is told' },
} as const;

export const governance: Command = {
  usage: usageOf({
    call: 'governance | governance set MODE --why TEXT [OPTIONS]',
    about: `Shows the mode, what it allows, the rules, and the last broken ones.
set changes the mode: ${MODES.join(', ')}.
In LOCKDOWN nothing starts. The way back leads over RECOVERY.`,
    options,
    examples: ['orchd governance', 'orchd governance set LOCKDOWN --why "a tool deletes files"'],
  }),
  options,
  words: WORDS,
  async run(args, terminal) {
    const [word, ...rest] = args.positionals;
    const client = connect(args);
    if (word === undefined) return show(await client.governance(), args, terminal);
    oneOf(word, 'the action', WORDS);
    const mode = oneOf(singlePositional(rest, 'mode').toUpperCase(), 'the mode', MODES);
    const why = textOf(args.values, 'why');
    if (why === undefined) throw new UsageError('--why is missing: everybody who waits is told the reason.');
    return show(await client.setMode({ mode, why }), args, terminal);
  },
};

function show(view: GovernanceView, args: CliArguments, terminal: Terminal): number {
  if (flagOf(args.values, 'json')) terminal.printData(JSON.stringify(view));
  else terminal.print(governanceLines(view));
  return EXIT.ok;
}
