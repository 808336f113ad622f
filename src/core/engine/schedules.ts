/** Events of schedules: they are set and deleted, and their ticks are decided. */
import {
  decideTick,
  dropSchedule,
  type ScheduleOrder,
  setSchedule,
  type Tick,
} from '../admission/schedules.ts';
import { type Handlers, needsDiskSpace } from './handler.ts';
import { submitOne } from './jobs.ts';

export type ScheduleEvent =
  | { readonly type: 'schedule'; readonly order: ScheduleOrder }
  | {
      readonly type: 'drop-schedule';
      readonly order: Pick<ScheduleOrder, 'tenant' | 'name' | 'source' | 'by'>;
    }
  | { readonly type: 'schedule-tick'; readonly tick: Tick };

export const schedules = {
  schedule: needsDiskSpace((turn, { order }) => setSchedule(turn, order)),
  'drop-schedule': needsDiskSpace((turn, { order }) => dropSchedule(turn, order)),
  'schedule-tick': needsDiskSpace((turn, { tick }) =>
    decideTick(turn, tick, (submission) => submitOne(turn, submission)),
  ),
} satisfies Handlers<ScheduleEvent>;
