/**
 * Named places in the code at which a test may kill the process. They do nothing, at almost no cost, unless armed.
 */
export const CRASHPOINTS = [
  'loop:after-step',
  'loop:after-append',
  'commit:before-replies',
  'commit:after-replies',
  'yield:before-commit',
  'yield:after-commit',
  'wake',
  'effect:before-offer',
  'effect:after-offer',
  'effect:before-kill',
  'effect:before-ack',
  'checkpoint:after-roll',
  'checkpoint:after-merge',
  'checkpoint:after-manifest',
] as const;

/** Places where a brain moves sessions to the archive, or deletes them there; their tests arm them there. */
export const SESSION_CRASHPOINTS = ['sessions:after-archive', 'sessions:after-forget'] as const;

/** Places where work goes out to consumers and comes back. */
export const CONSUMER_CRASHPOINTS = [
  'claim:before-answer',
  'results:before-answer',
  'hint:before-publish',
  'events:before-answer',
  'stream:before-add',
  'stream:after-add',
  'stream:before-ack',
  'stream:after-ack',
] as const;

/** Places in the process that keeps commands; its tests arm them there. */
export const KEEPER_CRASHPOINTS = [
  'keeper:before-place',
  'keeper:after-place',
  'keeper:before-start',
  'keeper:after-start',
  'keeper:after-end',
  'keeper:before-exit',
  'keeper:after-exit',
  'keeper:before-claim',
  'keeper:after-claim',
] as const;

/** Places in the process of the gateway. */
export const GATEWAY_CRASHPOINTS = [
  'gateway:after-intent',
  'gateway:after-upstream-id',
  'gateway:first-event',
  'gateway:before-result',
  'gateway:after-result',
] as const;

/** Places where a provisioner starts and stops processes. */
export const PROVISION_CRASHPOINTS = [
  'provision:before-start',
  'provision:after-start',
  'provision:before-signal',
  'provision:before-remove',
] as const;

export type Crashpoint = (
  | typeof CRASHPOINTS
  | typeof SESSION_CRASHPOINTS
  | typeof CONSUMER_CRASHPOINTS
  | typeof KEEPER_CRASHPOINTS
  | typeof GATEWAY_CRASHPOINTS
  | typeof PROVISION_CRASHPOINTS
)[number];

let armed: ((name: Crashpoint) => void) | undefined;

export function crashpoint(name: Crashpoint): void {
  armed?.(name);
}

/** Whether a test has armed the crash points: what costs more than a call is done only then. */
export const crashpointsAreArmed = (): boolean => armed !== undefined;

/** For tests only: `hit` is called at every crash point; undefined disarms them. */
export function armCrashpoints(hit: ((name: Crashpoint) => void) | undefined): void {
  armed = hit;
}
