/** The names of streams and consumer groups. They are fixed: programs in any language rely on them. */
import type { DoorbellPlace } from '../../core/ports/doorbell.ts';

const PREFIX = 'stream:orchestrator:';

/** The pool whose stream has no name of a pool in it. */
export const DEFAULT_POOL = 'default';

/** The key of a stream, and the group that reads it. */
export type StreamPlace = DoorbellPlace;

/** Where the consumers of a pool hear of jobs. A pool has a stream of its own: groups on one stream each get every entry. */
export const jobsPlace = (pool: string): StreamPlace =>
  pool === DEFAULT_POOL
    ? { key: `${PREFIX}inference_jobs`, group: 'cg:inference' }
    : { key: `${PREFIX}inference_jobs:${pool}`, group: `cg:inference:${pool}` };

/** Where programs that start workers hear of the worker pools that they are to carry out. */
export const PRELOADS: StreamPlace = { key: `${PREFIX}preloads`, group: 'cg:preloads:workers' };

/** The group by which brains read both of the streams to them. */
const BRAINS = 'cg:orchestrator';
export const INGEST: StreamPlace = { key: `${PREFIX}ingest_events`, group: BRAINS };
export const CONTROL: StreamPlace = { key: `${PREFIX}control`, group: BRAINS };

/** Dead jobs, and entries that could not be used. Nobody of ours reads it. */
export const DLQ = `${PREFIX}dlq`;

/** The name under which brains read. Only one of them leads, and its successor goes on with what it has read. */
export const BRAIN = 'orchd';
