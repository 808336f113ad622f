/**
 * Named places at which a test may kill the process. Silent and nearly free unless armed.
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

/** Test harness only: calls `hit` at every crash point. */
export function armCrashpoints(hit: ((name: Crashpoint) => void) | undefined): void {
  armed = hit;
}
