/** Checks the schedules of a configuration without a brain, as their setting would. */
import { tickProblem } from '../../kit/ticks.ts';
import { OrchdError } from '../../model/errors.ts';
import type { ConfiguredSchedule } from '../../model/http/schedules.ts';
import { MAX_REQUEST_CHARS } from '../../model/schedule.ts';
import { checkRequest } from '../../runtime/prepare.ts';
import { scheduleSpec } from '../../runtime/schedule-view.ts';

/** Throws INVALID_PARAMS with the field, such as `schedules[2].cron`. */
export function checkSchedules(schedules: readonly ConfiguredSchedule[], now: number): void {
  const names = new Set<string>();
  for (const [at, { name, ...written }] of schedules.entries()) {
    const path = `schedules[${at}]`;
    if (names.has(name)) throw invalid(`${path}.name`, `there are two schedules "${name}"`);
    names.add(name);
    const spec = named(path, () => scheduleSpec(written));
    const problem = tickProblem(spec, now);
    if (problem) throw invalid(`${path}.${problem.field}`, problem.message);
    if (spec.request.length > MAX_REQUEST_CHARS)
      throw invalid(`${path}.job`, `the job is longer than ${MAX_REQUEST_CHARS} characters`);
    named(`${path}.job`, () => checkRequest(written.job));
  }
}

function named<T>(path: string, check: () => T): T {
  try {
    return check();
  } catch (error) {
    if (!(error instanceof OrchdError)) throw error;
    const { field = '' } = error.details;
    throw invalid(field.startsWith('job.') ? `${path.replace(/\.job$/, '')}.${field}` : path, error.message);
  }
}

const invalid = (field: string, message: string): OrchdError =>
  new OrchdError('INVALID_PARAMS', message, { field });
