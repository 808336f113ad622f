/** How the brain calls a worker (worker-wire.ts). The executor of an upstream has the same routes. */
import { checker } from '../../kit/check.ts';
import { jobOfToken } from '../../model/records.ts';
import { ExecutionList, ExecutionState } from '../../model/worker-wire.ts';
import type { ExecutorProtocol } from '../executor/protocol.ts';

export const WORKER_PROTOCOL: ExecutorProtocol = {
  executionsPath: '/executions',
  listPath: '/executions',
  offer: (_, work) => ({ path: '/execute', body: work }),
  kill: (token, how) => ({
    path: '/cancel',
    body: JSON.stringify({ job_id: jobOfToken(token), token, how }),
  }),
  readList: checker(ExecutionList),
  readState: checker(ExecutionState),
};
