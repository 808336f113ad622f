/** `orchd migrate`: upgrades the tables of the database, or copies all data from one store to another. */
import type { ResolvedConfig } from '../../config/resolve.ts';
import { realEnv } from '../../kit/env/real.ts';
import { OrchdError } from '../../model/errors.ts';
import type { MigratableStore } from '../../stores/migration/between.ts';
import { PLACE_FORMS } from '../../stores/place-forms.ts';
import { flagOf, noPositionals, textOf } from '../arguments.ts';
import { type CliArguments, type Command, EXIT, type Terminal, UsageError } from '../command.ts';
import { DATA_OPTIONS, JSON_OPTION, usageOf } from '../options.ts';
import { dataFolder, readConfig } from '../settings.ts';
import { ProgressLine, reportText } from '../text/migrate-text.ts';

const width = Math.max(...Object.values(PLACE_FORMS).map(({ form }) => form.length));
const PLACE_HELP = [
  'PLACE is one of',
  ...Object.values(PLACE_FORMS).map(({ form, means }) => `  ${form.padEnd(width)}  ${means}`),
].join('\n');

const options = {
  from: { type: 'string', value: 'PLACE', help: 'the store to copy from; it is only read' },
  to: { type: 'string', value: 'PLACE', help: 'the store to copy to; it must be empty' },
  ...DATA_OPTIONS,
  ...JSON_OPTION,
} as const;

export const migrate: Command = {
  usage: usageOf({
    call: 'migrate [--from PLACE --to PLACE] [OPTIONS]',
    about: `Without --from and --to: upgrades the tables of the configured database to this version, as a start does.
With both: copies every job, body and record, reads everything back and compares it. Stop the brain first. The same
command completes a migration that was interrupted; until then no brain starts on the target.

${PLACE_HELP}`,
    options,
    examples: [
      'orchd migrate',
      'orchd migrate --from journal:data/orchestrator --to mariadb',
      'orchd migrate --from mariadb --to journal:data/saved --json',
    ],
  }),
  options,
  async run(args, terminal) {
    noPositionals(args.positionals);
    const { values } = args;
    const [from, to] = [textOf(values, 'from'), textOf(values, 'to')];
    if ((from === undefined) !== (to === undefined))
      throw new UsageError('--from and --to must be given together.');
    const config = await readConfig(args, terminal);
    if (from === undefined || to === undefined)
      return upgradeTables(config, flagOf(values, 'json'), terminal);
    const data = dataFolder(args, config);
    const { placeOf } = await import('../place.ts');
    return move(await placeOf(from, config, data), await placeOf(to, config, data), args, terminal);
  },
};

async function upgradeTables(config: ResolvedConfig, json: boolean, terminal: Terminal): Promise<number> {
  const { configuredStore, STORES } = await import('../../stores/registry.ts');
  const { migrationFailure } = await import('../../stores/migration/between.ts');
  const { upgrade, title } = configuredStore(config);
  if (!upgrade) {
    const kinds = Object.keys(STORES).filter((kind) => STORES[kind as keyof typeof STORES].upgrade);
    throw new OrchdError(
      'CONFIG_INVALID',
      `${title} has no tables: set store to ${kinds.join(' or ')} in the configuration`,
    );
  }
  try {
    const { from, to } = await upgrade(config);
    const text = from === to ? `The tables already have version ${to}.` : tablesText(from, to);
    if (json) terminal.printData(JSON.stringify({ from, to }));
    else terminal.print(text);
    return EXIT.ok;
  } catch (error) {
    throw migrationFailure(error);
  }
}

const tablesText = (from: number, to: number): string =>
  from === 0 ? `Created the tables, version ${to}.` : `Upgraded the tables from version ${from} to ${to}.`;

async function move(
  from: MigratableStore,
  to: MigratableStore,
  { values }: CliArguments,
  terminal: Terminal,
): Promise<number> {
  const { migrateBetween } = await import('../../stores/migration/between.ts');
  const line = new ProgressLine(terminal);
  const report = await migrateBetween(realEnv(), from, to, line.show).finally(() => line.clear());
  if (flagOf(values, 'json')) terminal.printData(jsonOf(report));
  else terminal.print(reportText(report));
  return EXIT.ok;
}

/** Field names are in snake case, as everywhere outside the code. */
function jsonOf(report: object): string {
  const snake = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return JSON.stringify(
    Object.fromEntries(Object.entries(report).map(([name, value]) => [snake(name), value])),
  );
}
