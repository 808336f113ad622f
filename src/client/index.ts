/** `orchd/client` */
export {
  type BulkAnswer,
  ClientError,
  type ClientOptions,
  type FollowOptions,
  OrchdClient,
  type SubmittedTask,
  type TaskEvent,
} from './client.ts';
