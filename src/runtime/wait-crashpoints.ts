/** The crash points of jobs that wait: only some commits pass them. */
import { type Crashpoint, crashpoint, crashpointsAreArmed } from '../kit/crashpoint.ts';
import { causeText } from '../model/causes.ts';
import type { Change } from '../model/records.ts';

type WaitCrashpoint = Extract<Crashpoint, `yield:${string}` | 'wake'>;

/** `wake` and `yield:before-commit` are passed before the store gets the changes, `yield:after-commit` when they are durable. */
const CAUSES: Readonly<Record<WaitCrashpoint, RegExp>> = {
  'yield:before-commit': /^waits/,
  'yield:after-commit': /^waits/,
  wake: /^wake/,
};

/** Passes the crash point if one of the changes makes a job wait, or wakes one. The changes are read only if a test is armed. */
export function waitCrashpoint(name: WaitCrashpoint, changes: readonly Change[]): void {
  if (!crashpointsAreArmed()) return;
  if (changes.some(({ kind, cause }) => kind === 'job' && CAUSES[name].test(causeText(cause))))
    crashpoint(name);
}
