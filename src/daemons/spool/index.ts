/** The daemons of a spool for programs, `orchd/spool-daemons`. */

export { type AgentOptions, SpoolAgent } from './agent.ts';
export type { Brain, BrainAnswer, BrainJobEnd, BrainRefusal } from './brain.ts';
export { BrainJobs, type BrainJobsOptions } from './brain-jobs.ts';
export { functionHandler, type JobHandler, type JobOutcome, type SpoolJob } from './handler.ts';
export { type ManagerOptions, SpoolManager } from './manager.ts';
export { SpoolWatchdog, type WatchdogOptions } from './watchdog.ts';
