/** `orchd prices [set FILE]` */
import type { PricesView } from '../../model/http/prices.ts';
import { flagOf, oneOf, singlePositional } from '../arguments.ts';
import { type CliArguments, type Command, EXIT, type Terminal, UsageError } from '../command.ts';
import { fileText, standardInput } from '../json-argument.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';
import { connect } from '../remote.ts';
import { pricesText } from '../text/price-text.ts';

const WORDS = ['set'] as const;

const options = { ...SERVER_OPTIONS } as const;

export const prices: Command = {
  usage: usageOf({
    call: 'prices | prices set FILE [OPTIONS]',
    about: `Lists the prices in force. Prices of tokens are for a million of them.
set replaces all prices by those of FILE (- for standard input): YAML with a list \`prices\`, as in the configuration. They
are in whole millionths of the currency. With a \`currency\` in the file, it must be that of the server.`,
    options,
    examples: ['orchd prices', 'orchd prices set prices.yaml', 'orchd prices --json > backup.json'],
  }),
  options,
  words: WORDS,
  async run(args, terminal) {
    const [word, ...rest] = args.positionals;
    if (word === undefined) return show(await connect(args).prices(), args, terminal);
    oneOf(word, 'the action', WORDS);
    const file = singlePositional(rest, 'file');
    return set(file, args, terminal);
  },
};

async function set(file: string, args: CliArguments, terminal: Terminal): Promise<number> {
  const text = file === '-' ? await standardInput() : await fileText(file);
  const { loadConfig } = await import('../../config/load.ts');
  const { priceList } = await import('../../config/prices.ts');
  const { parseConfig } = await import('../../config/parse.ts');
  const label = file === '-' ? 'standard input' : file;
  const { money } = loadConfig({ text, label });
  const { root } = parseConfig(text, label);
  if (!Array.isArray(root['prices'])) throw new UsageError(`${label} has no list \`prices\`.`);
  const client = connect(args);
  const { currency } = await client.prices();
  if (root['currency'] !== undefined && money.currency !== currency)
    throw new UsageError(
      `the prices of ${label} are in ${money.currency}, and the server counts ${currency}.`,
    );
  return show(await client.setPrices(priceList(money.prices)), args, terminal);
}

function show(view: PricesView, args: CliArguments, terminal: Terminal): number {
  if (flagOf(args.values, 'json')) terminal.printData(JSON.stringify(view));
  else if (view.prices.length === 0)
    terminal.complain('no prices: every job costs nothing, and hard budgets refuse paid seats.');
  else terminal.print(pricesText(view, terminal.isPerson ? terminal.columns || undefined : undefined));
  return EXIT.ok;
}
