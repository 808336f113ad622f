/** The routes of batches, and the commands for all jobs that match a filter. */

import type { Timers } from '../kit/env/env.ts';
import {
  BatchListQuery,
  BatchPage,
  BatchView,
  BulkCommand,
  BulkOutcome,
  CreateBatch,
  ResultsQuery,
} from '../model/http/batches.ts';
import { tagsOf } from '../runtime/listing.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import { NDJSON_TYPE } from '../wire/line-stream.ts';
import { type Call, type Route, route } from '../wire/route.ts';
import type { OpenStreams } from './open-streams.ts';
import { writeResults } from './result-stream.ts';

const idOf = ({ params }: Pick<Call, 'params'>): string => params['id'] ?? '';

export const batchRoutes = (
  { batches }: Orchestrator,
  openStreams: OpenStreams,
  timers: Timers,
): readonly Route[] => [
  route({
    operationId: 'createBatch',
    tag: 'batches',
    method: 'POST',
    path: '/v2/batches',
    role: 'submit',
    summary: 'Create a batch, or give one another name and other tags; jobs join it by their field `batch`',
    body: CreateBatch,
    answers: { 200: { description: 'The batch', body: BatchView } },
    handle: async ({ body, identity }) => ({ status: 200, body: await batches.put(body, identity.tenant) }),
  }),
  route({
    operationId: 'listBatches',
    tag: 'batches',
    method: 'GET',
    path: '/v2/batches',
    role: 'read',
    summary: 'List batches, the last changed first',
    query: BatchListQuery,
    answers: { 200: { description: 'The batches', body: BatchPage } },
    handle: async ({ query, identity }) => {
      const tags = query.tag === undefined ? {} : tagsOf(query.tag);
      return { status: 200, body: { batches: await batches.list(identity.tenant, query.limit, tags) } };
    },
  }),
  route({
    operationId: 'getBatch',
    tag: 'batches',
    method: 'GET',
    path: '/v2/batches/:id',
    role: 'read',
    summary: 'A batch: its jobs by state, and when the last of them is expected to end',
    answers: { 200: { description: 'The batch', body: BatchView }, 404: 'No such batch' },
    handle: async (call) => ({ status: 200, body: await batches.get(idOf(call), call.identity.tenant) }),
  }),
  route({
    operationId: 'getBatchResults',
    tag: 'batches',
    method: 'GET',
    path: '/v2/batches/:id/results',
    role: 'read',
    summary:
      'The jobs of a batch with their results, one JSON object a line, in the order of their admission',
    query: ResultsQuery,
    isProxied: true,
    answers: {
      200: {
        description:
          'One line per job: the job with its result and `n`, its admission number. An answer that breaks off is resumed with `after`',
        type: NDJSON_TYPE,
      },
      404: 'No such batch',
      429: 'Too many streams',
    },
    handle: async (call) => {
      const { identity, query } = call;
      const id = idOf(call);
      await batches.get(id, identity.tenant);
      const after = query.after === undefined ? undefined : Number(query.after);
      const pages = batches.results(id, identity.tenant, { ...query, after });
      // The first page is read before the answer begins, so that an error has its status.
      const first = await pages.next();
      const release = openStreams.take(identity);
      return { stream: (_, response) => void writeResults(first, pages, response, timers).finally(release) };
    },
  }),
];

/** Commands for all jobs that match a filter. */
export const bulkCommandRoutes = ({ bulk }: Orchestrator): readonly Route[] => [
  route({
    operationId: 'cancelJobs',
    tag: 'jobs',
    method: 'POST',
    path: '/v2/tasks/cancel',
    role: 'submit',
    summary: 'Cancel all live jobs that match a filter; with `dry_run` only count them',
    body: BulkCommand,
    answers: { 200: { description: 'How many jobs match, and how many were cancelled', body: BulkOutcome } },
    repeatable: ({ body }) => body,
    handle: async ({ body, identity: { name, tenant } }) => ({
      status: 200,
      body: await bulk.cancel(body, name, tenant),
    }),
  }),
  route({
    operationId: 'redriveJobs',
    tag: 'jobs',
    method: 'POST',
    path: '/v2/tasks/redrive',
    role: 'operate',
    summary: 'Queue all dead jobs that match a filter again; with `dry_run` only count them',
    body: BulkCommand,
    answers: {
      200: { description: 'How many jobs match, and how many were queued again', body: BulkOutcome },
    },
    handle: async ({ body, identity: { name, tenant } }) => ({
      status: 200,
      body: await bulk.redrive(body, name, tenant),
    }),
  }),
];
