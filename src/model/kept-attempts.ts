/** Which of its attempts a job keeps. */
import type { AttemptRecord } from './records.ts';

/** Whether an ended attempt is kept. One that ended by waiting is not: a run has one for each of its steps. */
export const isKept = ({ outcome }: AttemptRecord): boolean => outcome !== 'waits';
