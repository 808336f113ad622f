/** Checks the folder of one job. */
import type { Lifecycle } from './envelope.ts';
import type { Finding, FindingCode } from './findings.ts';
import { historyProblem } from './history.ts';
import { hasResult, readLifecycle } from './job-folder.ts';
import { jobFiles, nameProblem, type Place } from './layout.ts';
import { readPlainText } from './plain-files.ts';
import type { Spool } from './spool.ts';
import type { SpoolStatus } from './states.ts';

/** The statuses that a job may have in each place; one that an actor has in hand may have any. */
const STATUS_IN: Readonly<Record<Exclude<Place, 'in-progress'>, SpoolStatus>> = {
  incoming: 'queued',
  succeeded: 'succeeded',
  failed: 'failed',
  killed: 'killed',
  stale: 'stale',
};

export interface CheckedPlace {
  readonly place: Place;
  /** Somebody has the job in hand, and may be changing it. */
  readonly isInHand: boolean;
}

/** The longest history that is looked at. */
const MAX_HISTORY_BYTES = 16 * 1024 * 1024;

export async function checkJob(
  spool: Spool,
  path: string,
  name: string,
  at: CheckedPlace,
): Promise<Finding[]> {
  const found: Finding[] = [];
  const report = (code: FindingCode, why: string): void => void found.push({ code, path, why });
  const problem = nameProblem(name);
  if (problem !== undefined) report('BAD_NAME', problem);
  const unmovable = await unmovableBecause(spool, path);
  if (unmovable !== undefined) report('UNMOVABLE', unmovable);
  const prompt = await promptProblem(spool, path);
  if (prompt !== undefined) report('BAD_PROMPT', prompt);
  const read = await readLifecycle(spool, path);
  if (read.is === 'unreadable') report('UNREADABLE_JOB', read.why);
  else if (read.is === 'unknown version')
    report('UNKNOWN_VERSION', `its schema-version is "${read.version}"`);
  else if (!at.isInHand && at.place !== 'in-progress')
    await checkAtRest(spool, path, at.place, read.lifecycle, report);
  return found;
}

/** Why the folder of a job cannot be moved by one rename by the user who asks; undefined where it can. */
export async function unmovableBecause({ env, paths }: Spool, path: string): Promise<string | undefined> {
  const [stat, root] = [await env.disk.lstat(path), await env.disk.lstat(paths.root)];
  if (stat?.kind !== 'folder') return undefined;
  if (stat.device !== root?.device) return 'it lies on another file system';
  const mayMove = (await env.disk.mayWrite?.(path)) ?? true;
  return mayMove ? undefined : 'it may not be moved';
}

async function promptProblem({ env, settings }: Spool, path: string): Promise<string | undefined> {
  const read = await readPlainText(env.disk, jobFiles(path).prompt, settings.maxPromptBytes);
  if (read.is === 'absent') return 'there is no prompt.json';
  if (read.is === 'bad') return `prompt.json ${read.why}`;
  try {
    JSON.parse(read.text);
    return undefined;
  } catch {
    return 'prompt.json is not JSON';
  }
}

async function checkAtRest(
  { env }: Spool,
  path: string,
  place: Exclude<Place, 'in-progress'>,
  lifecycle: Lifecycle,
  report: (code: FindingCode, why: string) => void,
): Promise<void> {
  const { status } = lifecycle;
  if (status !== STATUS_IN[place]) report('WRONG_PLACE', `job.json says ${status}`);
  else if (status === 'succeeded' && !(await hasResult(env.disk, path)))
    report('MISSING_RESULT', 'there is no complete result.json');
  const files = jobFiles(path);
  for (const temporary of [files.temporaryJob, files.temporaryResult])
    if (await env.disk.lstat(temporary)) report('TEMPORARY_FILE', 'a file that was being written was left');
  const history = await readPlainText(env.disk, files.history, MAX_HISTORY_BYTES);
  const problem = history.is === 'text' ? historyProblem(history.text, lifecycle) : undefined;
  if (problem !== undefined) report('WRONG_HISTORY', problem);
}
