/** Decides how many threads the llama engine uses if nobody says. */

/**
 * One core is left for everything else: the threads of llama wait for each other in every step, so one that has to share
 * its core slows down all of them. `mathCores` are those that the engine itself finds useful: on a machine where each core
 * runs two threads they are fewer.
 *
 * Workers beside each other do not divide the cores: a worker without jobs uses none, and often only one has jobs.
 */
export const defaultThreads = (usableCores: number, mathCores: number): number =>
  Math.max(1, Math.min(Math.floor(usableCores - 1), mathCores));
