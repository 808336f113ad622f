/**
 * What has become of a token in a spool, read from the folder of its job on every call: the spool is the only truth. The
 * name of the folder is made of the brain and the token, and `job.json` holds the token itself.
 */
import type { ExecutionEnd, ExecutionOutcome } from '../../core/ports/backend.ts';
import { errorInfo } from '../../model/errors.ts';
import { freshLifecycle, type Lifecycle } from '../../spool/envelope.ts';
import { readLifecycle, readResult } from '../../spool/job-folder.ts';
import type { Place } from '../../spool/layout.ts';
import { type LocatedJob, locateJobs } from '../../spool/locate.ts';
import type { Spool } from '../../spool/spool.ts';
import { folderName } from '../local/command/layout.ts';

/** `job.json` of a job that a brain has put into a spool. */
export interface BrainLifecycle extends Lifecycle {
  readonly token: string;
  readonly hash?: string | undefined;
  readonly offered_at?: number | undefined;
  /** The token was killed before it was offered, or what was said in its job was erased: it is refused from now on. */
  readonly tombstone?: boolean | undefined;
}

export type TokenState =
  | { readonly is: 'absent' }
  | { readonly is: 'tombstone'; readonly job: LocatedJob }
  /** The job of the token lies in `incoming/` and waits for an agent. */
  | KnownJob<'waiting'>
  | KnownJob<'running'>
  | KnownJob<'ended'>;

export interface KnownJob<Is extends string = 'waiting' | 'running' | 'ended'> {
  readonly is: Is;
  readonly job: LocatedJob;
  readonly lifecycle: BrainLifecycle;
}

export interface NamedToken {
  readonly token: string;
  /** The name of its job's folder. */
  readonly name: string;
}

export const namedToken = (owner: string, token: string): NamedToken => ({
  token,
  name: folderName(owner, token),
});

/** The beginning of the names of all folders of a brain. */
export const namePrefix = (owner: string): string => `${folderName(owner, '').split('.')[0]}.`;

/** Whether jobs that lie there have ended, as far as anybody but their brain decides. */
export const isEndPlace = (place: Place): boolean => place !== 'incoming' && place !== 'in-progress';

const MAX_MESSAGE_CHARS = 2000;

/** The state of the job in this folder; undefined where the folder was moved since it was found. */
export async function readTokenState(
  spool: Spool,
  { token }: NamedToken,
  job: LocatedJob,
): Promise<Exclude<TokenState, { is: 'absent' }> | undefined> {
  const read = await readLifecycle(spool, job.folder);
  // A folder that is gone reads as one without a job.json, which has no token.
  if (read.is === 'read' && read.lifecycle.token !== token) return undefined;
  const lifecycle = read.is === 'read' ? (read.lifecycle as BrainLifecycle) : unreadable(token, job.place);
  if (lifecycle.tombstone === true) return { is: 'tombstone', job };
  const isEnd = isEndPlace(job.place);
  // Somebody is changing an ended job, and puts it back in a moment.
  if (isEnd && job.actor !== undefined) return undefined;
  return { is: isEnd ? 'ended' : job.place === 'incoming' ? 'waiting' : 'running', job, lifecycle };
}

/** Of a job whose `job.json` an agent has spoiled its name and its place are known: it must not stop all others. */
const unreadable = (token: string, place: Place): BrainLifecycle => ({
  ...freshLifecycle(0),
  status: place === 'incoming' ? 'queued' : place,
  token,
  reason: 'its job.json cannot be read',
});

/** Finds the job of one token; `lastSeen` is where it was the last time. */
export async function findToken(
  spool: Spool,
  named: NamedToken,
  lastSeen?: LocatedJob,
): Promise<TokenState | undefined> {
  const known = lastSeen && (await readTokenState(spool, named, lastSeen));
  if (known) return known;
  const job = (await locateJobs(spool, [named.name])).get(named.name);
  return job ? readTokenState(spool, named, job) : { is: 'absent' };
}

/** How an ended execution has ended. The same folder always gives the same answer. */
export async function endOf(spool: Spool, { job, lifecycle }: KnownJob): Promise<ExecutionEnd> {
  const why = lifecycle.reason;
  switch (job.place) {
    case 'succeeded': {
      const resultText = await readResult(spool.env.disk, job.folder);
      if (resultText === undefined) return { is: 'forgotten', why: 'its result.json cannot be read' };
      return { is: 'ended', outcome: { ok: true, resultText } };
    }
    case 'failed':
      return { is: 'ended', outcome: failure(lifecycle) };
    case 'killed':
      return { is: 'ended', outcome: { ok: 'cancelled' } };
    default:
      return { is: 'forgotten', ...(why !== undefined && { why }) };
  }
}

function failure({ reason = 'it failed', retriable }: Lifecycle): ExecutionOutcome {
  const error = errorInfo('EXECUTION_FAILED', reason.slice(0, MAX_MESSAGE_CHARS).toWellFormed());
  return { ok: false, error: { ...error, retriable: retriable !== false } };
}

export const withHash = <T extends object>(
  status: T,
  { hash }: Pick<BrainLifecycle, 'hash'>,
): T & { readonly hash?: string } => (hash === undefined ? status : { ...status, hash });
