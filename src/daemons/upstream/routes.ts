/** The routes about the upstream itself, beside the routes of a worker. */
import { Type } from 'typebox';
import { UpstreamOrder, UpstreamState } from '../../model/upstream-wire.ts';
import { type Route, route } from '../../wire/route.ts';
import { MAX_WAIT_MS, type StateFeed } from '../execution/state-feed.ts';

export interface UpstreamRouteContext {
  readonly feed: StateFeed;
  readonly state: () => UpstreamState;
  readonly follow: (order: UpstreamOrder) => void;
  /** Called at every request of a brain. */
  readonly called: () => void;
}

const StateQuery = Type.Object(
  {
    after: Type.Optional(Type.String({ pattern: '^[0-9]{1,15}$' })),
    wait_ms: Type.Optional(Type.String({ pattern: '^[0-9]{1,9}$' })),
  },
  { additionalProperties: false },
);

export const upstreamRoutes = ({ feed, state, follow, called }: UpstreamRouteContext): Route[] => [
  route({
    operationId: 'followUpstream',
    tag: 'worker',
    method: 'PUT',
    path: '/upstream',
    role: 'operate',
    summary: 'Where the upstream is, and how it is used',
    body: UpstreamOrder,
    answers: { 204: 'It is followed from now on' },
    handle({ body }) {
      called();
      follow(body);
      return { status: 204 };
    },
  }),
  route({
    operationId: 'getUpstream',
    tag: 'worker',
    method: 'GET',
    path: '/upstream',
    role: 'read',
    summary: `The models of the upstream; waits for a change of version, for ${MAX_WAIT_MS} ms at most`,
    query: StateQuery,
    answers: { 200: { description: 'The state of the upstream', body: UpstreamState } },
    async handle({ query }) {
      called();
      const { after, wait_ms: waitMs = '0' } = query;
      await feed.waitForChange(after === undefined ? undefined : Number(after), Number(waitMs));
      called();
      return { status: 200, body: state() };
    },
  }),
];
