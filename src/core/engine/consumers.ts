/** Events of consumers: processes that ask for work, and report what became of it. */

import type { ConsumerDeclaration } from '../../model/consumer-record.ts';
import { OrchdError } from '../../model/errors.ts';
import {
  type ClaimOrder,
  type ConsumerResult,
  claimAttempts,
  type HeldReport,
  type ResultAnswer,
  recordResult,
  reportHeld,
} from '../attempts/claims.ts';
import { drainConsumer, leave, register, seen } from '../attempts/presence.ts';
import { lendDevice } from '../workers/lease-device.ts';
import { drainIfOver } from '../workers/worker-pools.ts';
import { type Handlers, mayRefuse, needsDiskSpace } from './handler.ts';

export type ConsumerEvent =
  | { readonly type: 'consumer'; readonly declared: ConsumerDeclaration }
  | ({ readonly type: 'claim' } & ClaimOrder)
  | ({ readonly type: 'held' } & HeldReport)
  | { readonly type: 'results'; readonly consumer: string; readonly results: readonly ConsumerResult[] }
  | { readonly type: 'consumer-left'; readonly consumer: string }
  | { readonly type: 'drain-consumer'; readonly id: string; readonly by: string };

export const consumers = {
  consumer: needsDiskSpace((turn, { declared }) => {
    const record = register(turn, declared);
    drainIfOver(turn, declared.pool, declared.name);
    return record;
  }),
  claim: mayRefuse((turn, order) => claimAttempts(turn, order, lendDevice)),
  held: mayRefuse((turn, report) => reportHeld(turn, report)),
  results: mayRefuse((turn, { consumer: secret, results }): readonly ResultAnswer[] => {
    const consumer = seen(turn, secret);
    return results.map((result) => recordResult(turn, consumer, result));
  }),
  'consumer-left': mayRefuse((turn, { consumer: secret }) => {
    const id = turn.state.consumers.idOf(secret);
    if (id === undefined) throw new OrchdError('CONSUMER_GONE');
    leave(turn, id);
  }),
  'drain-consumer': mayRefuse((turn, { id, by }) => drainConsumer(turn, id, by)),
} satisfies Handlers<ConsumerEvent>;
