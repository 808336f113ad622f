/**
 * How much work an event may be, known before it is handled: the number of jobs that its step may change. The loop
 * shares out its turns by it, so that events that arrive together do not all run in one turn.
 */
import { MAX_CANCELLED_PER_STEP } from '../attempts/operator-commands.ts';
import { SETTLED_PER_STEP } from '../attempts/pausing.ts';
import type { State } from '../state/state.ts';
import type { EngineEvent } from './areas.ts';
import { RESERVED_PER_STEP } from './sessions.ts';

/** At least 1: every event is followed by a look at what can be scheduled. */
export function workOf({ roster }: State, event: EngineEvent): number {
  switch (event.type) {
    case 'submit':
      return event.submissions.length;
    case 'cancel':
      return 1 + Math.min(roster.descendants(event.uid).size, MAX_CANCELLED_PER_STEP);
    case 'pause-job':
    case 'resume-job':
      return 1 + Math.min(roster.descendants(event.uid).size, SETTLED_PER_STEP);
    case 'forget-session':
      return 1 + Math.min(roster.inSession(event.tenant, event.id).size, MAX_CANCELLED_PER_STEP);
    case 'archive-sessions':
      return 1 + event.records.length;
    case 'expire-archived':
      return 1 + event.sessions.length;
    case 'reserve-live':
      return RESERVED_PER_STEP;
    case 'indexed':
      return 1 + event.uids.length;
    case 'pool':
      return 1 + event.report.workers.length;
    default:
      return 1;
  }
}
