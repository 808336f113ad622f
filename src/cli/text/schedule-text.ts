/** The output of `orchd schedules`. */
import type { ScheduleView } from '../../model/http/schedules.ts';
import { oneLine } from './screen.ts';
import { tableText } from './table.ts';

const timeText = (at: number | null): string =>
  at === null ? 'never' : new Date(at).toISOString().slice(0, 19).replace('T', ' ');

const patternText = ({ cron, every_sec, time_zone }: ScheduleView): string =>
  cron === undefined ? `every ${every_sec} s` : `${cron} (${time_zone})`;

function lastText({ last }: ScheduleView): string {
  if (!last) return '-';
  return [timeText(last.at), last.outcome, last.job_id ?? last.error ?? ''].join(' ').trimEnd();
}

const HEADINGS = ['SCHEDULE', 'WHEN', 'NEXT (UTC)', 'ADMITTED', 'SKIPPED', 'REFUSED', 'LAST'];

export const scheduleTable = (schedules: readonly ScheduleView[]): string =>
  tableText(
    HEADINGS,
    schedules.map((each) => [
      each.schedule,
      patternText(each),
      timeText(each.next_at),
      ...[each.admitted, each.skipped, each.refused].map(String),
      lastText(each),
    ]),
  );

export function scheduleLines(schedule: ScheduleView): string {
  const { overlap, catch_up, source, by, admitted, skipped, refused, missed, job } = schedule;
  const rows = {
    when: `${patternText(schedule)}; overlap ${overlap}, catch-up ${catch_up}`,
    next: `${timeText(schedule.next_at)} UTC`,
    last: lastText(schedule),
    ticks: `${admitted} admitted, ${skipped} skipped, ${refused} refused, missed ${missed} times`,
    'set by': `${by}${source === 'config' ? ', in the configuration' : ''}`,
    job: JSON.stringify(job),
  };
  const lines = Object.entries(rows).map(([label, text]) => `  ${label.padEnd(8)}${oneLine(text)}`);
  return [oneLine(schedule.schedule), ...lines].join('\n');
}
