/** Lists jobs by a tag in the order of their admission: adapters continue with it where a former process stopped. */
import { DEFAULT_TENANT, type Labels } from '../model/records.ts';
import { isTerminal } from '../model/states.ts';
import type { Reads } from './reads.ts';

export interface TaggedJob {
  /** The admission number: later jobs have higher ones. */
  readonly n: number;
  readonly jobId: string;
  readonly isEnded: boolean;
}

/** The oldest `limit` jobs of the default tenant with these tags that were admitted after the job `after`. */
export async function taggedJobs(
  reads: Pick<Reads, 'find'>,
  tags: Labels,
  after: number,
  limit: number,
): Promise<readonly TaggedJob[]> {
  const found = await reads.find({ tenant: DEFAULT_TENANT, tags, after, order: 'oldest first', limit });
  return found.map(({ ask, job }) => ({ n: ask.n, jobId: ask.id, isEnded: isTerminal(job.state) }));
}
