/**
 * Schedules, and what becomes of their ticks.
 *
 * S1  A tick is decided in the commit that moves `tickedTo` past it, together with the job that it admits. So no crash
 *     loses a tick or submits its job twice.
 * S2  A tick that is not after `tickedTo`, or of a schedule that was changed since, is decided already and changes nothing.
 */
import { tickProblem } from '../../kit/ticks.ts';
import { OrchdError } from '../../model/errors.ts';
import { scoped, uidOf } from '../../model/records.ts';
import {
  type LastTick,
  MAX_REQUEST_CHARS,
  MAX_SCHEDULES,
  SCHEDULE_NAME,
  type ScheduleRecord,
  type ScheduleSpec,
} from '../../model/schedule.ts';
import { isTerminal } from '../../model/states.ts';
import { cancel } from '../attempts/operator-commands.ts';
import type { Turn } from '../turn.ts';
import type { Submission } from './submission.ts';

const isName = new RegExp(SCHEDULE_NAME);

export interface ScheduleOrder {
  readonly tenant: string;
  readonly name: string;
  readonly source: ScheduleRecord['source'];
  readonly by: string;
  readonly models: readonly string[] | undefined;
  readonly spec: ScheduleSpec;
}

/** Adds or replaces a schedule. Ticks before this instant are never due, whatever the schedule was before. */
export function setSchedule(
  turn: Turn,
  { tenant, name, source, by, models, spec }: ScheduleOrder,
): ScheduleRecord {
  const { schedule: table } = turn.state.tables;
  const id = scoped(tenant, name);
  const before = table.get(id);
  if (!isName.test(name))
    throw invalid('name', `"${name}" is no name of a schedule: letters, digits, "_", "-"`);
  if (before) checkSource(before, source);
  else if (table.size >= MAX_SCHEDULES) throw invalid('name', `there are ${MAX_SCHEDULES} schedules already`);
  if (spec.request.length > MAX_REQUEST_CHARS)
    throw invalid('job', `the job is longer than ${MAX_REQUEST_CHARS} characters`);
  const problem = tickProblem(spec, turn.now);
  if (problem) throw invalid(problem.field, problem.message);
  const counts = before ?? { admitted: 0, skipped: 0, refused: 0, missed: 0 };
  const { admitted, skipped, refused, missed } = counts;
  const { cron, everyMs, timeZone, overlap, catchUp, request } = spec;
  const record: ScheduleRecord = {
    ...{ cron, everyMs, timeZone, overlap, catchUp, request },
    ...{ v: 1, tenant, name, source, by, models, setAt: turn.now, tickedTo: turn.now },
    ...{ admitted, skipped, refused, missed, last: before?.last, lastJob: before?.lastJob },
  };
  turn.put('schedule', id, record, { is: 'set', by });
  return record;
}

export function dropSchedule(
  turn: Turn,
  { tenant, name, source, by }: Pick<ScheduleOrder, 'tenant' | 'name' | 'source' | 'by'>,
): void {
  const record = turn.state.tables.schedule.get(scoped(tenant, name));
  if (!record) throw new OrchdError('NOT_FOUND', `there is no schedule "${name}"`);
  checkSource(record, source);
  turn.put('schedule', scoped(tenant, name), null, { is: 'set', by });
}

function checkSource({ name, source }: ScheduleRecord, by: ScheduleRecord['source']): void {
  if (source === 'config' && by === 'api')
    throw new OrchdError(
      'ILLEGAL_STATE',
      `the schedule "${name}" is in the configuration: change it there, and reload`,
    );
}

/** A tick that is due. */
export interface Tick {
  readonly tenant: string;
  readonly name: string;
  readonly at: number;
  /** `setAt` of the schedule that the tick was computed from. */
  readonly setAt: number;
  /** Ticks before this one that nobody makes up for. */
  readonly missed: number;
  /** Undefined where all ticks up to `at` are missed. */
  readonly submission: Submission | undefined;
  /** Why the request of the schedule could not even be prepared. */
  readonly refusal?: OrchdError | undefined;
}

/** What was decided, and the answer to the submit of a job that was admitted. */
export interface TickDecision<Answer> {
  readonly is: LastTick['outcome'] | 'missed' | 'decided';
  readonly submitted?: Answer | undefined;
}

/** S1. Throws where `admit` refuses the job for a reason that passes: the tick is still to be decided then. */
export function decideTick<Answer extends { readonly id: string }>(
  turn: Turn,
  tick: Tick,
  admit: (submission: Submission) => Answer,
): TickDecision<Answer> {
  const id = scoped(tick.tenant, tick.name);
  const record = turn.state.tables.schedule.get(id);
  // S2.
  if (!record || record.setAt !== tick.setAt || record.tickedTo >= tick.at) return { is: 'decided' };
  const moved = { ...record, tickedTo: tick.at, missed: record.missed + tick.missed };
  const put = (after: ScheduleRecord): void =>
    void turn.put('schedule', id, after, { is: 'set', by: 'schedule' });
  if (!tick.submission && !tick.refusal) {
    put(moved);
    return { is: 'missed' };
  }
  const { last, submitted } = outcomeOf(turn, record, tick, admit);
  put(withLast(moved, last));
  return { is: last.outcome, submitted };
}

function outcomeOf<Answer extends { readonly id: string }>(
  turn: Turn,
  record: ScheduleRecord,
  { at, submission, refusal }: Tick,
  admit: (submission: Submission) => Answer,
): { readonly last: LastTick; readonly submitted?: Answer } {
  if (refusal || !submission) return { last: refused(at, refusal ?? new OrchdError('INVALID_PARAMS')) };
  const earlier = stillGoing(turn, record);
  if (earlier !== undefined && record.overlap === 'skip') return { last: { at, outcome: 'skipped' } };
  try {
    const submitted = admit(submission);
    // After the submit: a refused one leaves the earlier job alone.
    if (earlier !== undefined && record.overlap === 'replace')
      cancel(turn, earlier, `schedule ${record.name}`);
    return { last: { at, outcome: 'admitted', job: submitted.id }, submitted };
  } catch (error) {
    if (!(error instanceof OrchdError) || error.retriable) throw error;
    return { last: refused(at, error) };
  }
}

const refused = (at: number, { code, message }: OrchdError): LastTick => ({
  at,
  outcome: 'refused',
  error: `${code}: ${message}`.slice(0, 500),
});

/** The uid of the schedule's last job, if that has not ended. */
function stillGoing({ state }: Turn, { tenant, lastJob }: ScheduleRecord): string | undefined {
  const uid = lastJob === undefined ? undefined : uidOf(tenant, lastJob);
  const entry = uid === undefined ? undefined : state.jobs.get(uid);
  return entry && !isTerminal(entry.job.state) ? uid : undefined;
}

const withLast = (record: ScheduleRecord, last: LastTick): ScheduleRecord => ({
  ...record,
  last,
  lastJob: last.job ?? record.lastJob,
  [last.outcome]: record[last.outcome] + 1,
});

const invalid = (field: string, message: string): OrchdError =>
  new OrchdError('INVALID_PARAMS', message, { field });
