/** Waits for batches and jobs, shows how far they are, and says how they ended. */
import { ClientError, type OrchdClient } from '../../client/client.ts';
import { Patience, pause } from '../../client/patience.ts';
import type { BatchView } from '../../model/http/batches.ts';
import type { JobView } from '../../model/http/jobs.ts';
import { isTerminal, JOB_STATES, type JobState } from '../../model/states.ts';
import { EXIT, type Terminal } from '../command.ts';
import { EXIT_INTERRUPTED, Interrupt } from '../interrupt.ts';
import { forJob } from '../job-id.ts';
import { UnknownId } from '../refusal.ts';
import { durationText } from '../text/duration.ts';
import { bar, counted, liveText, Meter, rateText } from '../text/meter.ts';
import { firstCall } from './first-call.ts';

export interface WaitForOptions {
  readonly timeoutMs?: number | undefined;
  /** The command that waits, as its messages name it; by default `wait`. */
  readonly command?: string;
  /** Of a command that has handled signals before: none is missed between its work and the wait. */
  readonly interrupt?: Interrupt;
}

/** How far a batch or a job is. */
export interface Standing {
  readonly id: string;
  readonly kind: 'batch' | 'job';
  readonly jobs: number;
  readonly live: number;
  readonly counts: Readonly<Partial<Record<JobState, number>>>;
  /** Milliseconds until its end, where the brain can say it. */
  readonly predictedMs: number | undefined;
}

const POLL_MS = 500;
const LOST = 'orchd: the connection was lost; reconnecting';

export async function waitForIds(
  client: OrchdClient,
  ids: readonly string[],
  { timeoutMs, command = 'wait', interrupt: given }: WaitForOptions,
  terminal: Terminal,
): Promise<number> {
  const kinds = new Map<string, Standing['kind']>();
  // An unknown id is refused at once, and so is a brain that is not there.
  const meter = new Meter(terminal);
  const first = await firstCall(
    () => Promise.all(ids.map((id) => look(client, id, kinds))),
    () => meter.update(() => LOST),
  );
  const interrupt = given ?? new Interrupt();
  const deadline = timeoutMs === undefined ? undefined : performance.now() + timeoutMs;
  const isOver = (): boolean =>
    interrupt.signal.aborted || (deadline !== undefined && performance.now() >= deadline);
  const progress = new WaitProgress(meter, sumOf(first).live);
  try {
    const last = await pollUntilEnded(client, first, kinds, { isOver, interrupt, progress, meter, deadline });
    meter.clear();
    if (interrupt.signal.aborted) {
      terminal.complain(`orchd ${command}: interrupted; ${leftText(last)}.${goingOn(last)}`);
      return EXIT_INTERRUPTED;
    }
    if (last.some(({ live }) => live > 0)) {
      terminal.complain(`orchd wait: ${durationText(timeoutMs as number)} have passed; ${leftText(last)}.`);
      return EXIT.timeout;
    }
    return ended(last, terminal);
  } finally {
    interrupt.remove();
    meter.clear();
  }
}

interface PollParts {
  readonly isOver: () => boolean;
  readonly interrupt: Interrupt;
  readonly progress: WaitProgress;
  readonly meter: Meter;
  /** As performance.now() counts. */
  readonly deadline: number | undefined;
}

/** Returns the last look at each id. */
async function pollUntilEnded(
  client: OrchdClient,
  first: readonly Standing[],
  kinds: Map<string, Standing['kind']>,
  { isOver, interrupt, progress, meter, deadline }: PollParts,
): Promise<readonly Standing[]> {
  let isLost = false;
  const patience = new Patience({
    signal: interrupt.signal,
    onReconnect: () => {
      if (!isLost) meter.say(LOST);
      isLost = true;
    },
  });
  let standings = first;
  for (;;) {
    progress.update(sumOf(standings));
    if (standings.every(({ live }) => live === 0) || isOver()) return standings;
    const restMs = deadline === undefined ? POLL_MS : Math.min(POLL_MS, deadline - performance.now());
    await pause(Math.max(0, restMs), interrupt.signal);
    try {
      standings = await Promise.all(
        standings.map((each) => (each.live === 0 ? each : look(client, each.id, kinds))),
      );
      patience.succeeded();
      isLost = false;
    } catch (error) {
      await patience.failed(error);
    }
  }
}

/** An id is that of a batch or, if there is no such batch, that of a job, or its beginning. */
async function look(
  client: OrchdClient,
  id: string,
  kinds: Map<string, Standing['kind']>,
): Promise<Standing> {
  if (kinds.get(id) !== 'job') {
    try {
      const standing = ofBatch(await client.batch(id));
      kinds.set(id, 'batch');
      return standing;
    } catch (error) {
      if (!(error instanceof ClientError) || error.status !== 404 || kinds.has(id)) throw error;
    }
  }
  const job = await jobOf(client, id);
  kinds.set(job.job_id, 'job');
  const live = isTerminal(job.state) ? 0 : 1;
  return {
    id: job.job_id,
    kind: 'job',
    jobs: 1,
    live,
    counts: { [job.state]: 1 },
    predictedMs: live === 0 ? undefined : job.predicted_start_ms,
  };
}

async function jobOf(client: OrchdClient, id: string): Promise<JobView> {
  try {
    return await forJob(client, id, (whole) => client.get(whole));
  } catch (error) {
    if (!(error instanceof ClientError) || error.code !== 'NOT_FOUND') throw error;
    throw new UnknownId(
      `there is no batch and no job "${id}"`,
      '`orchd batches` and `orchd jobs` list them.',
    );
  }
}

const ofBatch = ({
  batch_id: id,
  jobs,
  live_jobs: live,
  counts,
  predicted_end_ms: ms,
}: BatchView): Standing => ({
  id,
  kind: 'batch',
  jobs,
  live,
  counts,
  predictedMs: ms,
});

type Sum = Omit<Standing, 'id' | 'kind'>;

export function sumOf(standings: readonly Standing[]): Sum {
  const counts: Partial<Record<JobState, number>> = {};
  for (const each of standings)
    for (const state of JOB_STATES) counts[state] = (counts[state] ?? 0) + (each.counts[state] ?? 0);
  const live = standings.filter((each) => each.live > 0);
  const predicted = live.map(({ predictedMs }) => predictedMs ?? Number.NaN);
  const longest = Math.max(...predicted);
  return {
    jobs: standings.reduce((sum, { jobs }) => sum + jobs, 0),
    live: live.reduce((sum, each) => sum + each.live, 0),
    counts,
    predictedMs: live.length > 0 && Number.isFinite(longest) ? longest : undefined,
  };
}

/** `3 succeeded, 1 dead`, in the order of the states; states without a job are left out. */
export function countsText(counts: Sum['counts']): string {
  return JOB_STATES.filter((state) => (counts[state] ?? 0) > 0)
    .map((state) => `${(counts[state] as number).toLocaleString('en')} ${state}`)
    .join(', ');
}

class WaitProgress {
  readonly #meter: Meter;
  readonly #startedAt = performance.now();
  /** Live jobs at the beginning. */
  readonly #live: number;

  constructor(meter: Meter, live: number) {
    this.#meter = meter;
    this.#live = live;
  }

  update(sum: Sum): void {
    if (sum.live === 0) return;
    this.#meter.update(() => waitText(sum, this.#live - sum.live, performance.now() - this.#startedAt));
  }
}

/** `ended`: jobs that have ended in the last `ms` milliseconds. */
export function waitText({ jobs, live, counts, predictedMs }: Sum, ended: number, ms: number): string {
  const done = `${(jobs - live).toLocaleString('en')} of ${counted(jobs, 'job')} ended`;
  const own = ended > 0 && ms >= 2000 ? (live * ms) / ended : undefined;
  const left = own ?? predictedMs;
  const parts = [
    `${bar(jobs === 0 ? 0 : (jobs - live) / jobs)} ${done}`,
    rateText(ended, ms),
    left === undefined ? '' : `about ${durationText(left)} left`,
    // A narrow terminal cuts the end of the line.
    countsText(counts),
  ];
  return parts.filter((part) => part !== '').join(', ');
}

const leftText = (standings: readonly Standing[]): string => {
  const { live, jobs } = sumOf(standings);
  return liveText(live, jobs);
};

/** What becomes of the jobs when nobody waits for them any more, and how to wait for them again or stop them. */
function goingOn(standings: readonly Standing[]): string {
  const live = standings.filter((each) => each.live > 0);
  const [first] = live;
  if (!first) return '';
  const stops = live.map(({ id, kind }) => `\`orchd cancel ${kind === 'job' ? id : `--batch ${id} --yes`}\``);
  return `
What has not ended goes on: \`orchd wait ${live.map(({ id }) => id).join(' ')}\` waits again, ${stops.join(' and ')} stops it.`;
}

function ended(standings: readonly Standing[], terminal: Terminal): number {
  let worst: number = EXIT.ok;
  for (const { id, kind, jobs, counts } of standings) {
    const text = jobs === 0 ? 'no jobs' : countsText(counts);
    terminal.complain(`${kind} ${id}: ${text}.`);
    if ((counts.succeeded ?? 0) === jobs) continue;
    worst = EXIT.problems;
    if ((counts.dead ?? 0) === 0) continue;
    terminal.complain(
      kind === 'job'
        ? `\`orchd show ${id}\` says why, \`orchd redrive ${id}\` queues it again.`
        : `\`orchd jobs --batch ${id} --state dead\` says why, \`orchd redrive --batch ${id} --yes\` queues them again.`,
    );
  }
  return worst;
}
