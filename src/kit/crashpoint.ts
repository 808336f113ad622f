/**
 * Named places in the code at which a test may kill the process. They do nothing, at almost no cost, unless armed.
 */
export const CRASHPOINTS = [
  'loop:after-step',
  'loop:after-append',
  'commit:before-replies',
  'commit:after-replies',
  'effect:before-offer',
  'effect:after-offer',
  'effect:before-kill',
  'effect:before-ack',
  'checkpoint:after-roll',
  'checkpoint:after-merge',
  'checkpoint:after-manifest',
] as const;

export type Crashpoint = (typeof CRASHPOINTS)[number];

let armed: ((name: Crashpoint) => void) | undefined;

export function crashpoint(name: Crashpoint): void {
  armed?.(name);
}

/** For tests only: `hit` is called at every crash point; undefined disarms them. */
export function armCrashpoints(hit: ((name: Crashpoint) => void) | undefined): void {
  armed = hit;
}
