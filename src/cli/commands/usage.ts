/** `orchd usage` */
import type { OrchdClient, UsageRequest, UsageWindow } from '../../client/client.ts';
import { csvLine } from '../../kit/csv.ts';
import type { UsageReport } from '../../model/http/usage.ts';
import { LEDGER_COLUMNS, ledgerCells, usageCells, usageColumns } from '../../model/usage-columns.ts';
import { durationOf, flagOf, listOf, noPositionals, textOf } from '../arguments.ts';
import { type CliArguments, type Command, EXIT, type Terminal, UsageError } from '../command.ts';
import { EXIT_INTERRUPTED, Interrupt } from '../interrupt.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';
import { connect } from '../remote.ts';
import { usageTable } from '../text/usage-text.ts';

const options = {
  by: {
    type: 'string',
    multiple: true,
    value: 'KEY',
    help: 'principal, token, model (default), seat, route, session, tag:NAME, tenant, day; several with commas',
  },
  from: {
    type: 'string',
    value: 'TIME',
    help: 'from this day or instant on; by default from the first of this month',
  },
  to: { type: 'string', value: 'TIME', help: 'before this day or instant; by default until now' },
  since: {
    type: 'string',
    value: 'DURATION',
    help: 'the last hours or days, such as 24h or 7d, instead of --from',
  },
  'time-zone': {
    type: 'string',
    value: 'ZONE',
    help: 'the time zone of days, such as Europe/Berlin; by default UTC',
  },
  tenant: { type: 'string', value: 'TENANT', help: 'only this tenant; by default all that you may see' },
  ledger: { type: 'boolean', help: 'print every settled attempt instead, in the order of settlement' },
  csv: { type: 'boolean', help: 'print CSV' },
  output: {
    type: 'string',
    value: 'FILE',
    help: 'write CSV or the ledger to this file, which appears when it is complete',
  },
  ...SERVER_OPTIONS,
} as const;

export const usage: Command = {
  usage: usageOf({
    call: 'usage [OPTIONS]',
    about: `Shows what the attempts settled in a time have used and cost. Failed and cancelled tries count, and so do the jobs that
were deleted since. Costs of CSV and JSON are whole millionths of the currency; the ledger adds up to the sums.`,
    options,
    examples: [
      'orchd usage --since 7d --by principal,model',
      'orchd usage --by day --time-zone Europe/Berlin',
      'orchd usage --by tag:project --from 2026-10-01 --to 2026-11-01 --csv --output october.csv',
      'orchd usage --ledger --from 2026-10-01 --to 2026-11-01 --csv --output ledger.csv',
    ],
  }),
  options,
  async run(args, terminal) {
    noPositionals(args.positionals);
    const { values } = args;
    const window = windowOf(args);
    const client = connect(args);
    if (flagOf(values, 'csv') && flagOf(values, 'json'))
      throw new UsageError('--csv and --json exclude each other.');
    if (flagOf(values, 'ledger')) {
      if (listOf(values, 'by').length > 0)
        throw new UsageError('--ledger prints single attempts: it takes no --by.');
      return printLedger(client, window, args, terminal);
    }
    const report = await client.usage({ ...window, by: keysOf(args) });
    return printReport(report, args, terminal);
  },
};

function keysOf({ values }: CliArguments): UsageRequest['by'] {
  const given = listOf(values, 'by').flatMap((text) => text.split(','));
  return given.length === 0 ? ['model'] : given.map((key) => key.trim());
}

function windowOf({ values }: CliArguments): UsageWindow {
  const since = durationOf(values, 'since');
  const from = textOf(values, 'from');
  if (since !== undefined && from !== undefined)
    throw new UsageError('--since and --from exclude each other.');
  return {
    from: since === undefined ? from : new Date(Date.now() - since).toISOString(),
    to: textOf(values, 'to'),
    timeZone: textOf(values, 'time-zone'),
    tenant: textOf(values, 'tenant'),
  };
}

async function printReport(
  report: UsageReport,
  { values }: CliArguments,
  terminal: Terminal,
): Promise<number> {
  if (flagOf(values, 'csv')) {
    const { by, groups } = report;
    const rows = groups.map((group) => csvLine(usageCells(by, group)));
    await writeAll([csvLine(usageColumns(by)), ...rows], textOf(values, 'output'), terminal);
    return EXIT.ok;
  }
  if (values['output'] !== undefined) throw new UsageError('--output is only for --csv and --ledger.');
  if (flagOf(values, 'json')) terminal.printData(JSON.stringify(report));
  else terminal.print(usageTable(report, terminal));
  return EXIT.ok;
}

async function writeAll(rows: Iterable<string>, file: string | undefined, terminal: Terminal): Promise<void> {
  const { outputTo } = await import('../batch/output.ts');
  const output = await outputTo(file, terminal);
  try {
    for (const row of rows) await output.write(row);
    await output.finish();
  } finally {
    // A finished file has another name.
    await output.discard();
  }
}

async function printLedger(
  client: OrchdClient,
  window: UsageWindow,
  { values }: CliArguments,
  terminal: Terminal,
): Promise<number> {
  const { outputTo } = await import('../batch/output.ts');
  const isCsv = flagOf(values, 'csv');
  const output = await outputTo(textOf(values, 'output'), terminal);
  const interrupt = new Interrupt();
  try {
    if (isCsv) await output.write(csvLine(LEDGER_COLUMNS));
    for await (const line of client.ledger({ ...window, signal: interrupt.signal }))
      await output.write(isCsv ? csvLine(ledgerCells(line)) : `${JSON.stringify(line)}\n`);
    if (interrupt.signal.aborted) return EXIT_INTERRUPTED;
    await output.finish();
    return EXIT.ok;
  } finally {
    interrupt.remove();
    await output.discard();
  }
}
