/** Events of device leases: grant, heartbeat, release. */
import { grant, heartbeat, type LeaseOrder, type LeaseRequest, release } from '../admission/lease.ts';
import { leaseDevice } from '../workers/lease-device.ts';
import { type Handlers, mayRefuse, needsDiskSpace } from './handler.ts';

export type LeaseEvent =
  | { readonly type: 'lease'; readonly request: LeaseRequest }
  | ({ readonly type: 'heartbeat' } & LeaseOrder)
  | ({ readonly type: 'release' } & LeaseOrder);

export const leases = {
  lease: needsDiskSpace((turn, { request }) => grant(turn, request, leaseDevice)),
  heartbeat: mayRefuse((turn, event) => heartbeat(turn, event)),
  release: mayRefuse((turn, event) => release(turn, event)),
} satisfies Handlers<LeaseEvent>;
