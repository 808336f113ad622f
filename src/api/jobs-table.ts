/** Jobs in the words of the table orchestrator_jobs, for callers that know them so. */
import { JobTableRow, TableSubmit } from '../model/http/jobs-table.ts';
import { tableRowOf } from '../model/jobs-table.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import { type Route, route } from '../wire/route.ts';
import { callerOf, jobIdOf } from './tasks.ts';

export const jobsTableRoutes = (orchestrator: Orchestrator): readonly Route[] => [
  route({
    operationId: 'submitTableJob',
    tag: 'jobs',
    method: 'POST',
    path: '/jobs/submit',
    role: 'submit',
    summary: 'Submit a job under an id of the caller; answered in the words of the table orchestrator_jobs',
    body: TableSubmit,
    answers: {
      202: { description: 'The job is durable', body: JobTableRow },
      409: 'The job id was used with another body',
      422: 'Refused by admission',
      429: 'The queue is full, or a limit is reached',
    },
    repeatable: ({ body }) => body,
    handle: async (call) => {
      const { job_id } = await orchestrator.submit(call.body, callerOf(call));
      const view = await orchestrator.getResult(job_id, call.identity.tenant);
      return { status: 202, body: tableRowOf(view) };
    },
  }),
  route({
    operationId: 'getTableJob',
    tag: 'jobs',
    method: 'GET',
    path: '/jobs/:id',
    role: 'read',
    summary: 'A job as its row of the table orchestrator_jobs',
    answers: { 200: { description: 'The row', body: JobTableRow }, 404: 'No such job' },
    handle: async (call) => ({
      status: 200,
      body: tableRowOf(await orchestrator.getResult(jobIdOf(call), call.identity.tenant)),
    }),
  }),
];
