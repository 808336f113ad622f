/** The public exports of `orchd/client`. */
export type { BatchView, BulkCommand, BulkOutcome, CreateBatch } from '../model/http/batches.ts';
export type { BulkAnswer, JobPage, JobView, SubmittedTask } from '../model/http/jobs.ts';
export type { ModuleView } from '../model/http/modules.ts';
export type { PoolView } from '../model/http/pools.ts';
export type { ReloadReport } from '../model/http/reload.ts';
export type { AgentView, RunView, StartedRun } from '../model/http/runs.ts';
export type { Status } from '../model/http/status.ts';
export {
  type BatchResult,
  ClientError,
  type ClientOptions,
  type FollowOptions,
  type JobLine,
  type JobSource,
  type LineAnswer,
  OrchdClient,
  type ResultsOptions,
  type RunEvent,
  type RunRequest,
  type SubmitLinesOptions,
  type TaskEvent,
  type WaitOptions,
} from './client.ts';
