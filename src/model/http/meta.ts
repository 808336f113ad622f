/** Schemas of the HTTP answers about the server itself. */
import { Type } from 'typebox';
import { answerObject, instant, orNull, type Shape } from './shape.ts';

const optional = Type.Optional;

export const Health = answerObject('Health', {
  status: Type.Union([Type.Literal('ok'), Type.Literal('degraded'), Type.Literal('failed')], {
    description:
      '"degraded" while the disk is full, Redis has a problem, a backend knows another copy of the store, or blob files were missing at the start; "failed" if the brain has stopped',
  }),
  version: Type.String({ description: 'Version of orchd' }),
  uptime_ms: Type.Integer(),
  disk_full: Type.Boolean({ description: 'While the disk is full, no jobs are admitted or started' }),
  missing_blob_files: Type.Integer({
    description:
      'Files with bodies that jobs refer to and that were missing at the start; jobs that need one fail',
  }),
  redis_problems: optional(
    Type.Array(Type.String(), { description: 'What is wrong with Redis, where it is used, and what to do' }),
  ),
});
export type Health = Shape<typeof Health>;

export const Readiness = answerObject('Readiness', {
  ready: Type.Boolean({ description: 'Whether new jobs are accepted' }),
});

export const LeaderView = answerObject('Leader', {
  is_leader: Type.Boolean({ description: 'Whether the node that answers is the leader' }),
  node: orNull(Type.String({ description: 'Name of the node that answers; null without a cluster' })),
  leader: orNull(Type.String({ description: 'Name of the node that leads; null if none is known' })),
  address: orNull(Type.String({ description: 'Address at which the other nodes reach the leader' })),
  epoch: orNull(
    Type.Integer({ description: 'Number of the term of the leader: every new leader has a higher one' }),
  ),
  main_loop_silent_ms: orNull(
    Type.Number({
      description:
        'Milliseconds for which the main loop of the leader had not responded when it last renewed its term',
    }),
  ),
  lock_name: orNull(
    Type.String({ description: 'Name of the lock that the leader holds in the database, for operators' }),
  ),
});
export type LeaderView = Shape<typeof LeaderView>;

export const BackendView = answerObject('Backend', {
  name: Type.String(),
  kind: Type.String({ description: 'Kind of backend, such as "worker" or "function"' }),
  slots: Type.Integer({ description: 'Jobs that the backend runs at a time' }),
  used: Type.Optional(
    Type.Integer({ description: 'Slots in use, by all tenants; only for callers of the default tenant' }),
  ),
  up: Type.Boolean({ description: 'Whether the backend can be reached' }),
  types: orNull(Type.Array(Type.String(), { description: 'Types of jobs that it runs; null: any type' })),
  models: orNull(Type.Array(Type.String(), { description: 'Models that it has; null: none' })),
  labels: Type.Record(Type.String(), Type.String()),
  keeps_results: Type.Boolean({
    description: 'Whether running jobs and their results survive a restart of the brain',
  }),
  problem: Type.Optional(
    Type.String({
      description:
        'Why it gets no work: it knows another copy of the store of this brain, is at a node that does not lead, or is paused',
    }),
  ),
  rests: Type.Optional(
    Type.Object(
      {
        until: instant('Until when'),
        why: Type.String({ description: 'A reason, such as rate_limited or failing' }),
      },
      { description: 'It gets no job for a while: its provider wants none, or fails again and again' },
    ),
  ),
  paused: Type.Optional(
    Type.Object(
      {
        at: instant('Since when'),
        job_id: Type.String({ description: 'The job that was billed too much' }),
        excess: Type.Integer({ description: 'By how much, in millionths of the currency' }),
      },
      {
        description:
          'Its provider has billed more than the bound of a hard budget: it gets no job until an operator resumes it. Only for callers of the default tenant',
      },
    ),
  ),
});
export type BackendView = Shape<typeof BackendView>;

export const ResumedSeat = answerObject('ResumedSeat', {
  seat: Type.String(),
  was_paused: Type.Boolean(),
});
export type ResumedSeat = Shape<typeof ResumedSeat>;

export const Capabilities = answerObject('Capabilities', {
  version: Type.String({ description: 'Version of orchd' }),
  api_versions: Type.Array(Type.String(), { description: 'The first part of the paths, such as "v2"' }),
  store: Type.String({ description: 'Kind of store that the brain keeps its records in' }),
  priorities: Type.Array(Type.String(), { description: 'The values of `priority`, the most urgent first' }),
  queue: Type.Object({
    capacity: Type.Integer({ description: 'Maximum number of waiting jobs' }),
    policy: Type.String({
      description:
        'If the queue is full: "reject" refuses the new job, "drop-lru" drops the jobs that have waited longest',
    }),
  }),
  currency: Type.String({ description: 'The currency; every price and cost is in millionths of it' }),
  backends: Type.Array(BackendView),
});
export type Capabilities = Shape<typeof Capabilities>;
