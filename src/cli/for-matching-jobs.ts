/** Sends one request for all jobs that match a filter. */

import { flagOf } from './arguments.ts';
import type { BulkKind } from './batch/bulk-command.ts';
import { type CliArguments, type Terminal, UsageError } from './command.ts';
import { hasFilter } from './job-filter.ts';
import { connect } from './remote.ts';

/** Whether filters are given instead of ids; throws if both are, or only options that belong to filters. */
export function isBulk(args: CliArguments): boolean {
  const isFiltered = hasFilter(args);
  const [id] = args.positionals;
  if (isFiltered && id !== undefined)
    throw new UsageError(`give ids or filters, not both ("${id}" is an id).`);
  for (const option of ['yes', 'dry-run'])
    if (!isFiltered && flagOf(args.values, option))
      throw new UsageError(`--${option} is only for filters such as --batch.`);
  return isFiltered;
}

export async function runBulk(kind: BulkKind, args: CliArguments, terminal: Terminal): Promise<number> {
  const { bulkCommand } = await import('./batch/bulk-command.ts');
  const isPerson = process.stdin.isTTY === true && terminal.showsStatus === true;
  return bulkCommand(kind, args, connect(args), terminal, isPerson);
}
