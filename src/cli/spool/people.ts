/** The commands of `orchd spool` with which people change what is in a spool. */
import { diskErrorCode } from '../../kit/env/env.ts';
import type { Spool } from '../../spool/spool.ts';
import { noPositionals, singlePositional, textOf, wholeOf } from '../arguments.ts';
import { type CliArguments, EXIT, type Terminal, UsageError } from '../command.ts';
import { jsonOf } from '../json-argument.ts';
import { AdvisedError } from '../refusal.ts';
import { oneLine } from '../text/screen.ts';
import { callOf, checkName, namedJob, refuseUnless } from './named-job.ts';
import { asPerson, openSpoolAt, spoolOptions } from './open.ts';

export type SpoolAction = (
  folder: string,
  rest: readonly string[],
  args: CliArguments,
  terminal: Terminal,
) => Promise<number>;

export const init: SpoolAction = async (folder, rest, _, terminal) => {
  noPositionals(rest);
  const { makeSpool, openSpool, spoolAt, spoolId } = await import('../../spool/spool.ts');
  const options = await spoolOptions(folder);
  await makeSpool(spoolAt(options)).catch((error: unknown) => {
    const code = diskErrorCode(error);
    throw code === undefined ? error : new UsageError(`"${folder}" cannot be made into a spool (${code}).`);
  });
  await spoolId(await openSpool(options));
  terminal.complain(
    `${oneLine(folder)} is a spool; \`orchd spool up ${oneLine(folder)} -- COMMAND\` runs its jobs.`,
  );
  return EXIT.ok;
};

export const submit: SpoolAction = async (folder, rest, { values }, terminal) => {
  const spool = await openSpoolAt(folder);
  const prompt = await promptOf(rest, values);
  const { IdMaker } = await import('../../kit/ids.ts');
  const { jobName, PRIORITIES } = await import('../../spool/layout.ts');
  const { submitJob } = await import('../../spool/submit.ts');
  const priority = wholeOf(values, 'priority', PRIORITIES.first, PRIORITIES.last) ?? PRIORITIES.usual;
  const maxRetries = wholeOf(values, 'max-retries', 0, 1000);
  const now = spool.env.clock.now();
  const name = textOf(values, 'name') ?? jobName(priority, now, new IdMaker(spool.env.random).next(now));
  await checkName(name);
  await refuseTwin(folder, spool, name);
  await asPerson(spool, (person) =>
    submitJob(person, {
      name,
      prompt,
      ...(maxRetries !== undefined && { lifecycle: { max_retries: maxRetries } }),
    }),
  );
  terminal.print(name);
  return EXIT.ok;
};

async function refuseTwin(folder: string, spool: Spool, name: string): Promise<void> {
  const { findJob } = await import('../../spool/reads.ts');
  const twin = await findJob(spool, name);
  if (twin)
    throw new AdvisedError(
      'JOB_CONFLICT',
      `there is a job "${name}" in this spool: it lies in ${twin.place}`,
      `Give another --name; ${callOf('show', folder, name)} tells about that job.`,
    );
}

/** The prompt of the command line: JSON in a file or on standard input, or a text. */
async function promptOf(rest: readonly string[], values: CliArguments['values']): Promise<unknown> {
  const file = textOf(values, 'file');
  if (file === undefined) {
    const text = singlePositional(rest, 'prompt');
    return { prompt: text };
  }
  noPositionals(rest);
  return jsonOf(oneLine(file), file === '-' ? file : `@${file}`);
}

export const requeue: SpoolAction = async (folder, rest, _, terminal) => {
  const { spool, job } = await namedJob(folder, rest);
  const { place, name } = job;
  if (place !== 'stale' && place !== 'failed' && place !== 'killed')
    throw new AdvisedError('ILLEGAL_STATE', ...whyNotRequeued(folder, name, place));
  await refuseUnless({ status: 'queued', what: 'queued again' }, folder, job);
  const { requeueByOrder } = await import('../../spool/retry.ts');
  const outcome = await asPerson(spool, (person) => requeueByOrder(person, place, name));
  if (outcome !== 'requeued') throw movedMeanwhile(folder, name);
  terminal.complain(`${oneLine(name)} is queued again.`);
  return EXIT.ok;
};

/** The message and the next step. */
function whyNotRequeued(
  folder: string,
  name: string,
  place: 'incoming' | 'in-progress' | 'succeeded',
): [string, string] {
  switch (place) {
    case 'incoming':
      return [`"${name}" waits already`, `An agent takes it: ${callOf('up', folder)} runs one.`];
    case 'in-progress':
      return [`an agent has "${name}"`, `${callOf('kill', folder, name)} ends it first.`];
    default:
      return [
        `"${name}" has succeeded, and is not run again`,
        'Submit it under another name to have it run once more.',
      ];
  }
}

const movedMeanwhile = (folder: string, name: string): AdvisedError =>
  new AdvisedError(
    'ILLEGAL_STATE',
    `"${name}" was moved meanwhile`,
    `${callOf('show', folder, name)} says where it is now.`,
  );

export const kill: SpoolAction = async (folder, rest, _, terminal) => {
  const { spool, job } = await namedJob(folder, rest);
  const { killWaiting, orderKill } = await import('../../spool/retry.ts');
  const { place, name, agent } = job;
  if (place === 'succeeded' || place === 'killed')
    throw new AdvisedError(
      'ILLEGAL_STATE',
      `"${name}" has ended already (${place})`,
      `${callOf('show', folder, name)} tells how.`,
    );
  await refuseUnless({ status: 'killed', what: 'killed' }, folder, job);
  const outcome = await asPerson(spool, (person) =>
    place === 'in-progress'
      ? orderKill(person, agent ?? '', name)
      : killWaiting(person, place, name, 'killed by order'),
  );
  if (outcome === 'gone') throw movedMeanwhile(folder, name);
  terminal.complain(
    outcome === 'killed' ? `${oneLine(name)} is killed.` : `the agent of ${oneLine(name)} has been told.`,
  );
  return EXIT.ok;
};
