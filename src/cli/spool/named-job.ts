/** The job of a spool that a command line names, and what to do where it is not as the command needs it. */
import type { SeenJob } from '../../spool/reads.ts';
import type { Spool } from '../../spool/spool.ts';
import type { SpoolStatus } from '../../spool/states.ts';
import { singlePositional } from '../arguments.ts';
import { UsageError } from '../command.ts';
import { AdvisedError } from '../refusal.ts';
import { shellWord } from '../text/shell-word.ts';
import { openSpoolAt } from './open.ts';

/** A command for a person to copy. */
export const callOf = (action: string, ...words: string[]): string =>
  `\`${['orchd', 'spool', action, ...words.map(shellWord)].join(' ')}\``;

export interface NamedJob {
  readonly spool: Spool;
  readonly job: SeenJob;
}

export async function namedJob(folder: string, rest: readonly string[]): Promise<NamedJob> {
  const name = singlePositional(rest, 'job');
  await checkName(name);
  const spool = await openSpoolAt(folder);
  const { findJob, seeJob } = await import('../../spool/reads.ts');
  const found = await findJob(spool, name);
  if (!found)
    throw new AdvisedError(
      'NOT_FOUND',
      `there is no job "${name}" in this spool`,
      `${callOf('ls', folder)} lists its jobs.`,
    );
  return { spool, job: await seeJob(spool, found) };
}

export async function checkName(name: string): Promise<void> {
  const { nameProblem } = await import('../../spool/layout.ts');
  const problem = nameProblem(name);
  if (problem !== undefined) throw new UsageError(`"${name}" cannot be the name of a job: ${problem}.`);
}

/**
 * Refuses a job that nobody can bring to a status: its `job.json` cannot be read, or says what does not go with its place.
 * `check` says what to do about it.
 */
export async function refuseUnless(
  to: { readonly status: SpoolStatus; readonly what: string },
  folder: string,
  { name, lifecycle, problem }: SeenJob,
): Promise<void> {
  const { mayChangeStatus } = await import('../../spool/states.ts');
  if (lifecycle && mayChangeStatus(lifecycle.status, to.status)) return;
  const why = problem ?? `job.json says ${lifecycle?.status}`;
  throw new AdvisedError(
    'ILLEGAL_STATE',
    `"${name}" cannot be ${to.what}: ${why}`,
    `${callOf('check', folder)} says what to do about it.`,
  );
}
