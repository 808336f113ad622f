/** The library of the spool, `orchd/spool`: its transactions and checks. docs/spool.md has the protocol. */

export { type Disk, diskErrorCode, type Env } from '../kit/env/env.ts';
export { diskWorkerEnv, realEnv } from '../kit/env/real.ts';
export { createLogger, type Logger } from '../kit/logger.ts';
export { type Host, realHost } from '../kit/process/host.ts';
export { Actor, type ActorKind } from './actor.ts';
export { type CommitOutcome, commitJob, type EndStatus, saveResult } from './commit.ts';
export type { Envelope, Lifecycle, Runtime } from './envelope.ts';
export { FINDINGS, type Finding, type FindingCode } from './findings.ts';
export { checkSpool } from './invariants.ts';
export { jobName, type Place, PRIORITIES } from './layout.ts';
export { type LoadOutcome, loadJob, returnJob } from './load.ts';
export { releaseLock } from './lock.ts';
export { Heartbeats } from './owner.ts';
export { findJob, findJobs, readHistory, readJobFile, seeJob } from './reads.ts';
export { sweepSpool } from './repair.ts';
export { killWaiting, orderKill, requeueByOrder, retryJob } from './retry.ts';
export { makeSpool, openSpool, type Spool, type SpoolOptions, type SpoolSettings, spoolAt } from './spool.ts';
export { type NewSpoolJob, submitJob } from './submit.ts';
