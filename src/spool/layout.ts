/**
 * The folders and files of a spool, and the names of jobs (decision 37).
 *
 * L1  A job is a folder. It lies in one place, and is moved by one rename: whoever made the rename has the job.
 * L2  In a place that everybody uses (PUBLIC_PLACES) the `status` in `job.json` is the one of the place. The status is
 *     changed in a folder of the one who changes it: an agent's `in-progress/<agent>`, or `tmp/<actor>/<place>`.
 * L3  The id of an actor contains a nonce of its start, so that a folder of its own is never anybody else's.
 */
import { join } from 'node:path';
import type { SpoolStatus } from './states.ts';

/** Where a job can lie; `in-progress` has a folder for each agent. */
export type Place = 'incoming' | 'in-progress' | 'succeeded' | 'failed' | 'killed' | 'stale';

export const PUBLIC_PLACES = [
  'incoming',
  'succeeded',
  'failed',
  'killed',
  'stale',
] as const satisfies readonly Place[];

export type PublicPlace = (typeof PUBLIC_PLACES)[number];

/** The folder of each place, below that of the spool. */
export const PLACE_FOLDERS: Readonly<Record<Place, string>> = {
  incoming: 'incoming',
  'in-progress': 'in-progress',
  succeeded: 'completed/succeeded',
  failed: 'completed/failed',
  killed: 'completed/killed',
  stale: 'jobs/stale',
};

export const TMP_FOLDER = 'tmp';

/** The place of a job that has a status and that nobody has in hand. */
export const PLACE_OF: Readonly<Record<Exclude<SpoolStatus, 'in-progress'>, PublicPlace>> = {
  queued: 'incoming',
  succeeded: 'succeeded',
  failed: 'failed',
  killed: 'killed',
  stale: 'stale',
};

export interface SpoolPaths {
  readonly root: string;
  readonly tmp: string;
  readonly places: Readonly<Record<Place, string>>;
}

export function spoolPaths(root: string): SpoolPaths {
  const entries = Object.entries(PLACE_FOLDERS).map(([place, folder]) => [place, join(root, folder)]);
  return { root, tmp: join(root, TMP_FOLDER), places: Object.fromEntries(entries) as Record<Place, string> };
}

/** Everything that a spool is made of, a folder before what is in it. */
export const spoolFolders = ({ root, tmp, places }: SpoolPaths): string[] => [
  root,
  tmp,
  join(root, 'completed'),
  join(root, 'jobs'),
  ...Object.values(places),
];

const LOCK_SUFFIX = '.lock';

export const lockPath = ({ places }: SpoolPaths, job: string): string =>
  join(places.incoming, `${job}${LOCK_SUFFIX}`);

/** The job that a name in `incoming/` is the lock of; undefined for a job itself. */
export const jobOfLock = (name: string): string | undefined =>
  name.endsWith(LOCK_SUFFIX) ? name.slice(0, -LOCK_SUFFIX.length) : undefined;

export const OWNER_FILE = 'owner.json';

export interface JobFiles {
  readonly prompt: string;
  readonly job: string;
  readonly temporaryJob: string;
  readonly result: string;
  readonly temporaryResult: string;
  /** The `result.json` that a failed attempt has left. */
  readonly failedResult: string;
  readonly history: string;
  /** What the handler says while it works, a JSON object on each line. */
  readonly events: string;
  /** Orders the end of a job that is being run. */
  readonly kill: string;
}

export const jobFiles = (folder: string): JobFiles => ({
  prompt: join(folder, 'prompt.json'),
  job: join(folder, 'job.json'),
  temporaryJob: join(folder, 'job.json.tmp'),
  result: join(folder, 'result.json'),
  temporaryResult: join(folder, 'result.json.tmp'),
  failedResult: join(folder, 'result.failed.json'),
  history: join(folder, 'history.jsonl'),
  events: join(folder, 'events.jsonl'),
  kill: join(folder, 'kill'),
});

/** The folder of an actor in `tmp/`. */
export interface WorkspacePaths {
  readonly folder: string;
  readonly owner: string;
  /** Locks and jobs that are being made, locks that were moved aside: nothing that is missed when it is removed. */
  readonly work: string;
}

export function workspacePaths({ tmp }: SpoolPaths, actor: string): WorkspacePaths {
  const folder = join(tmp, actor);
  return { folder, owner: join(folder, OWNER_FILE), work: join(folder, 'work') };
}

/** The names in such a folder. */
export const WORKSPACE_NAMES: ReadonlySet<string> = new Set([
  OWNER_FILE,
  'work',
  ...Object.keys(PLACE_FOLDERS),
]);

/** Where an actor keeps the jobs that it has taken from a place, to change them there. */
export const takenFolder = ({ folder }: WorkspacePaths, place: Place): string => join(folder, place);

/** A file name has 255 bytes at most, and the lock's is longer than the job's. */
const MAX_NAME_BYTES = 255 - LOCK_SUFFIX.length;

/** Why a name in a spool is not that of a job; undefined where it may be. */
export function nameProblem(name: string): string | undefined {
  if (name === '') return 'it is empty';
  if (name.startsWith('.')) return 'it begins with a dot';
  if (name.endsWith(LOCK_SUFFIX)) return `it ends with ${LOCK_SUFFIX}`;
  if (name.includes('/')) return 'it contains a slash';
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for.
  if (/[\x00-\x1f\x7f]/.test(name)) return 'it contains a control character';
  if (!name.isWellFormed()) return 'it is not UTF-8';
  return Buffer.byteLength(name) > MAX_NAME_BYTES ? `it is longer than ${MAX_NAME_BYTES} bytes` : undefined;
}

export const isActorId = (text: string): boolean => /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/.test(text);

export const PRIORITIES = { first: 0, usual: 5, last: 9 } as const;

const NAMED_BY_US = /^p\d-/;

/** The sort key by which names are claimed; names that are not ours rank before those of the usual priority. */
export const claimOrder = (name: string): string =>
  NAMED_BY_US.test(name) ? name : `p${PRIORITIES.usual - 1}~${name}`;

/** A name that sorts by priority and arrival. `id` sorts by time itself, as those of kit/ids.ts do. */
export function jobName(priority: number, now: number, id: string): string {
  const time = new Date(now).toISOString().replace(/[-:.Z]/g, '');
  return `p${priority}-${time}-${id.slice(-20)}`;
}
