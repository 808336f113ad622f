/** The HTTP routes of schedules: jobs that are submitted again and again. */
import { SchedulePage, ScheduleQuery, ScheduleView, SetSchedule } from '../model/http/schedules.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import type { ScheduleSetter } from '../runtime/schedules.ts';
import { type Call, type Route, route } from '../wire/route.ts';

const nameOf = ({ params }: Pick<Call, 'params'>): string => params['name'] ?? '';

const setterOf = ({ identity: { tenant, name, models } }: Pick<Call, 'identity'>): ScheduleSetter => ({
  tenant,
  by: name,
  source: 'api',
  models,
});

const PATH = '/v2/schedules/:name';
const NO_SCHEDULE = 'No such schedule';
const IN_CONFIG = 'The schedule is in the configuration, and is changed there';

export const scheduleRoutes = ({ schedules, reads }: Orchestrator): readonly Route[] => [
  route({
    operationId: 'listSchedules',
    tag: 'schedules',
    method: 'GET',
    path: '/v2/schedules',
    role: 'read',
    summary: 'The schedules, in the order of their names',
    query: ScheduleQuery,
    answers: { 200: { description: 'A page of schedules', body: SchedulePage } },
    handle: async ({ query: { after, limit }, identity: { tenant } }) => ({
      status: 200,
      body: await reads.schedules.list(tenant, after, limit),
    }),
  }),
  route({
    operationId: 'getSchedule',
    tag: 'schedules',
    method: 'GET',
    path: PATH,
    role: 'read',
    summary: 'One schedule, with its last tick and the next one',
    answers: { 200: { description: 'The schedule', body: ScheduleView }, 404: NO_SCHEDULE },
    handle: async (call) => ({
      status: 200,
      body: await reads.schedules.get(nameOf(call), call.identity.tenant),
    }),
  }),
  route({
    operationId: 'setSchedule',
    tag: 'schedules',
    method: 'PUT',
    path: PATH,
    role: 'submit',
    summary: 'Set a schedule: a job that is submitted at every tick of a cron expression or an interval',
    body: SetSchedule,
    answers: {
      200: { description: 'The schedule is in force, and durable', body: ScheduleView },
      400: 'The expression, the time zone or the job is invalid: nothing has changed',
      409: IN_CONFIG,
    },
    repeatable: ({ body }) => body,
    handle: async (call) => ({
      status: 200,
      body: await schedules.set(nameOf(call), call.body, setterOf(call)),
    }),
  }),
  route({
    operationId: 'deleteSchedule',
    tag: 'schedules',
    method: 'DELETE',
    path: PATH,
    role: 'submit',
    summary: 'Delete a schedule; jobs that it has submitted go on',
    answers: { 204: 'Deleted, and durable', 404: NO_SCHEDULE, 409: IN_CONFIG },
    handle: async (call) => {
      await schedules.remove(nameOf(call), setterOf(call));
      return { status: 204 };
    },
  }),
];
