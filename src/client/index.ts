/** The public exports of `orchd/client`. */
export type { BulkAnswer, JobPage, JobView, SubmittedTask } from '../model/http/jobs.ts';
export type { PoolView } from '../model/http/pools.ts';
export type { Status } from '../model/http/status.ts';
export {
  ClientError,
  type ClientOptions,
  type FollowOptions,
  OrchdClient,
  type TaskEvent,
} from './client.ts';
