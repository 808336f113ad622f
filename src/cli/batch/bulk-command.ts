/** Commands for all jobs that match a filter: shown first, asked for, then sent. */
import { createInterface } from 'node:readline/promises';
import type { OrchdClient } from '../../client/client.ts';
import type { BulkCommand, BulkOutcome } from '../../model/http/batches.ts';
import { flagOf } from '../arguments.ts';
import { type CliArguments, EXIT, type Terminal, UsageError } from '../command.ts';
import { jobFilterOf } from '../job-filter.ts';
import { counted } from '../text/meter.ts';
import { oneLine } from '../text/screen.ts';

export interface BulkKind {
  /** `cancel` */
  readonly name: string;
  /** Past tense of the name: `cancelled`. */
  readonly done: string;
  /** The jobs that it is for: `live`. */
  readonly which: string;
  send(client: OrchdClient, command: BulkCommand): Promise<BulkOutcome>;
}

/** `isPerson`: whether somebody is there to be asked. */
export async function bulkCommand(
  kind: BulkKind,
  args: CliArguments,
  client: OrchdClient,
  terminal: Terminal,
  isPerson: boolean,
): Promise<number> {
  const filter = jobFilterOf(args);
  const asJson = flagOf(args.values, 'json');
  const preview = await kind.send(client, { ...filter, dry_run: true });
  if (flagOf(args.values, 'dry-run')) {
    if (asJson) terminal.printData(JSON.stringify(preview));
    else terminal.print(previewText(kind, preview));
    return EXIT.ok;
  }
  if (preview.matched > 0 && !flagOf(args.values, 'yes')) {
    terminal.complain(previewText(kind, preview));
    if (!isPerson) throw new UsageError(`add --yes to ${kind.name} them, or --dry-run only to see them.`);
    if (!(await isConfirmed(`${kind.name} ${counted(preview.matched, 'job')}?`, terminal)))
      return EXIT.problems;
  }
  const outcome = preview.matched === 0 ? preview : await kind.send(client, filter);
  if (asJson) terminal.printData(JSON.stringify(outcome));
  else terminal.print(outcomeText(kind, outcome));
  return outcome.refused > 0 ? EXIT.problems : EXIT.ok;
}

export function previewText({ which }: BulkKind, { matched, job_ids: ids }: BulkOutcome): string {
  if (matched === 0) return `no ${which} job matches.`;
  const more = matched > ids.length ? `, and ${(matched - ids.length).toLocaleString('en')} more` : '';
  return `${counted(matched, `${which} job`)}: ${ids.map(oneLine).join(', ')}${more}`;
}

function outcomeText(kind: BulkKind, outcome: BulkOutcome): string {
  const { matched, changed, refused, refusal } = outcome;
  if (matched === 0) return previewText(kind, outcome);
  const failed = refused === 0 ? '' : `; ${refused.toLocaleString('en')} refused: ${oneLine(refusal ?? '')}`;
  return `${counted(changed, 'job')} ${kind.done}${failed}`;
}

async function isConfirmed(question: string, terminal: Terminal): Promise<boolean> {
  terminal.status(`${question} [y/N] `);
  const input = createInterface({ input: process.stdin });
  try {
    const { value } = await input[Symbol.asyncIterator]().next();
    return /^y(es)?$/i.test(String(value ?? '').trim());
  } finally {
    input.close();
  }
}
