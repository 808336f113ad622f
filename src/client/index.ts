/** The public exports of `orchd/client`. */
export type { BulkAnswer, JobPage, JobView, SubmittedTask } from '../model/http/jobs.ts';
export {
  ClientError,
  type ClientOptions,
  type FollowOptions,
  OrchdClient,
  type TaskEvent,
} from './client.ts';
