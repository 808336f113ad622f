/** The output of `orchd status`: one screen of the whole. */
import type { Health } from '../../model/http/meta.ts';
import type { PoolView } from '../../model/http/pools.ts';
import type { NearLimit, Status, StatusJob } from '../../model/http/status.ts';
import type { Terminal } from '../command.ts';
import type { Snapshot } from '../snapshot.ts';
import { bytesText } from './bytes.ts';
import { durationText } from './duration.ts';
import { codeText } from './job-text.ts';
import { modelRows } from './model-text.ts';
import { type Colour, oneLine, paint } from './screen.ts';
import { tableText } from './table.ts';

/** The most rows of each table: the whole should fit on a screen. */
const MAX_ROWS = 8;

export interface StatusTextOptions {
  readonly terminal: Pick<Terminal, 'isPerson' | 'columns'>;
  readonly url: string;
  /** Jobs that end per second, if that is known. */
  readonly endsPerSec?: number | undefined;
}

export function statusText({ status, pools, dead }: Snapshot, options: StatusTextOptions): string {
  const { terminal } = options;
  return [
    headText(status, options),
    runningTable(status, terminal),
    backendTable(status, terminal),
    poolTable(pools ?? [], terminal),
    modelTable(status, terminal),
    limitsText(status.limits, terminal),
    heldText(status, terminal),
    deadText(dead, status.now, terminal),
  ]
    .filter((part) => part !== undefined)
    .join('\n\n');
}

const HEALTH_COLOURS = {
  ok: 'green',
  degraded: 'yellow',
  failed: 'red',
} as const satisfies Record<Health['status'], Colour>;

function headText(status: Status, { terminal, url, endsPerSec }: StatusTextOptions): string {
  const { leader, jobs, queue, totals } = status;
  const facts = [
    paint(HEALTH_COLOURS[status.status] ?? 'red', status.status, terminal),
    ...(status.disk_full ? ['the disk is full: nothing is admitted or started'] : []),
    ...(status.paused ? ['stopping'] : []),
    `up ${durationText(status.uptime_ms)}`,
    `store ${oneLine(status.store)}`,
    ...(leader.node === null ? [] : [`leader ${oneLine(leader.leader ?? '?')}`]),
    ...(leader.epoch === null ? [] : [`epoch ${leader.epoch}`]),
  ];
  const rows = [
    ['waiting', `${jobs.queued} of ${queue.capacity}${readyText(status)}`],
    ['running', `${jobs.running}${jobs.claimed > 0 ? `, ${jobs.claimed} being offered` : ''}`],
    ['in wait', jobs.waiting ? `${jobs.waiting} for jobs below them, an instant or an answer` : ''],
    ['unknown', jobs.stale === 0 ? '' : `${jobs.stale}`],
    ['ended', totals === undefined ? '' : endedText(totals, endsPerSec)],
    ['sessions', totals === undefined ? '' : turnsText(totals)],
  ].filter(([, text]) => text !== '');
  const lines = rows.map(([name = '', text]) => `${name.padEnd(8)} ${text}`);
  return [`orchd ${oneLine(status.version)} at ${url}: ${facts.join(', ')}`, ...lines].join('\n');
}

function readyText({ jobs, queue: { ready } }: Status): string {
  if (!ready || jobs.queued === 0) return '';
  const parked = jobs.queued - ready.interactive - ready.batch;
  const parts = [
    ready.interactive > 0 ? `${ready.interactive} interactive` : '',
    ready.batch > 0 ? `${ready.batch} batch` : '',
    parked > 0 ? `${parked} for an instant, their session, its backend or a limit` : '',
  ].filter((part) => part !== '');
  return parts.length === 0 ? '' : ` (${parts.join(', ')})`;
}

type Totals = NonNullable<Status['totals']>;

function endedText(totals: Totals, perSec: number | undefined): string {
  const counts = `${totals.succeeded} succeeded, ${totals.cancelled} cancelled, ${totals.dead} died since the start`;
  return perSec === undefined ? counts : `${counts}; ${perSec.toFixed(1)}/s`;
}

/** An older server does not count turns. */
function turnsText({ turns_held: held = 0, turns_moved: moved = 0 }: Partial<Totals>): string {
  const all = held + moved;
  if (!(all > 0)) return '';
  return `${held} of ${all} later turns (${Math.floor((100 * held) / all)} %) began where their conversation is`;
}

type Shown = StatusTextOptions['terminal'];

/** A table with a heading that says how many rows were left out; undefined without rows. */
function section(
  headings: readonly string[],
  rows: readonly (readonly string[])[],
  { isPerson, columns }: Shown,
  total = rows.length,
): string | undefined {
  if (rows.length === 0) return undefined;
  const shown = rows.slice(0, MAX_ROWS);
  const table = tableText(headings, shown, { width: isPerson ? columns || undefined : undefined });
  return total > shown.length ? `${table}\nand ${total - shown.length} more` : table;
}

function runningTable({ running, now, jobs }: Status, terminal: Shown): string | undefined {
  const rows = running.map((job) => [
    job.job_id,
    job.type,
    job.model ?? '-',
    durationText(now - job.since),
    job.backend,
  ]);
  const total = Math.max(running.length, jobs.running + jobs.claimed);
  return section(['RUNNING', 'TYPE', 'MODEL', 'FOR', 'ON'], rows, terminal, total);
}

function stateOf({ paused, up, rests }: Status['backends'][number]): string {
  if (paused) return 'paused';
  if (!up) return 'down';
  return rests ? `rests until ${new Date(rests.until).toISOString().slice(11, 19)}Z (${rests.why})` : 'up';
}

function backendTable({ backends }: Status, terminal: Shown): string | undefined {
  const rows = backends.map((backend) => [
    backend.name,
    backend.kind,
    stateOf(backend),
    backend.used === undefined ? `${backend.slots}` : `${backend.used} of ${backend.slots}`,
    backend.problem ?? (backend.models ?? backend.types ?? ['any']).join(', '),
  ]);
  const table = section(['BACKEND', 'KIND', 'STATE', 'SLOTS', 'RUNS'], rows, terminal);
  const isPaused = backends.some(({ paused }) => paused);
  return isPaused ? `${table}\norchd resume SEAT gives jobs again to one that is paused.` : table;
}

function poolTable(pools: readonly PoolView[], terminal: Shown): string | undefined {
  const rows = pools.map(({ pool_id, status, workers, gpus, problem }) => {
    const free = gpus.reduce((sum, { available_vram }) => sum + available_vram, 0);
    const all = gpus.reduce((sum, { total_vram }) => sum + total_vram, 0);
    const slots = workers.reduce((sum, worker) => sum + (worker.slots ?? 0), 0);
    const active = workers.reduce((sum, worker) => sum + worker.active, 0);
    const memory = `${gpus.length} devices, ${bytesText(free)} of ${bytesText(all)} free`;
    return [pool_id, status, `${workers.length}`, `${active} of ${slots}`, problem ?? memory];
  });
  return section(['POOL', 'STATE', 'WORKERS', 'SLOTS', 'MEMORY'], rows, terminal);
}

function modelTable({ models }: Status, terminal: Shown): string | undefined {
  return section(['MODEL', 'STATE', 'WORKERS', 'SLOTS', 'WAITING'], modelRows(models), terminal);
}

function limitsText(limits: readonly NearLimit[], terminal: Shown): string | undefined {
  const rows = limits.map(({ scope, what, used, of }) => [scope, what, `${rounded(used)} of ${rounded(of)}`]);
  return section(['LIMIT THAT IS NEAR', 'WHAT', 'USED'], rows, terminal);
}

const rounded = (amount: number): string => String(Math.round(amount * 10) / 10);

function heldText({ held, now, jobs }: Status, terminal: Shown): string | undefined {
  const rows = held.map((job) => [job.job_id, job.type, durationText(now - since(job)), job.backend]);
  const table = section(
    ['OUTCOME UNKNOWN', 'TYPE', 'FOR', 'ON'],
    rows,
    terminal,
    Math.max(held.length, jobs.stale),
  );
  return table && `${table}\norchd resolve ID --as retry|failed|succeeded decides the outcome of one.`;
}

const since = (job: StatusJob): number => job.since;

function deadText({ jobs, more }: Snapshot['dead'], now: number, terminal: Shown): string | undefined {
  const rows = jobs.map((job) => [
    job.job_id,
    job.type,
    durationText(now - (job.ended_at ?? job.created_at)),
    job.error ? `${codeText(job.error)}: ${oneLine(job.error.message)}` : (job.reason ?? ''),
  ]);
  const table = section(['DEAD', 'TYPE', 'AGO', 'WHY'], rows, terminal);
  const all = more ? '; `orchd jobs --state dead --all` lists all of them' : '';
  return table && `${table}\norchd redrive ID queues one again${all}.`;
}
