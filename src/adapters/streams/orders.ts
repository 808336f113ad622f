/** Orders out of the entries of `:control`. Each carries an API token, whose role has to allow the order as over HTTP. */
import type { Entry } from '../../backends/stream/entry.ts';
import { OrchdError } from '../../model/errors.ts';
import type { Orchestrator } from '../../runtime/orchestrator.ts';
import {
  grants,
  type Identity,
  identify,
  isOperator,
  type Role,
  type TokenEntry,
} from '../../wire/tokens.ts';

export type Ordered = Pick<Orchestrator, 'reconciliation' | 'pools' | 'orders'>;

interface Order {
  readonly role: Role;
  /** About the whole brain: only the operator may give it. */
  readonly isGlobal: boolean;
  /** The field that says what it is about. */
  readonly needs: 'pool' | 'worker' | 'job_id' | undefined;
  readonly run: (brain: Ordered, caller: Identity, about: string) => Promise<unknown>;
}

const global = (needs: Order['needs'], run: Order['run'], role: Role = 'admin'): Order => ({
  role,
  isGlobal: true,
  needs,
  run,
});

/** By the value of the field `order`. */
const ORDERS: Readonly<Record<string, Order>> = {
  reconcile: global(undefined, ({ reconciliation }, { name }) => reconciliation.run(name), 'operate'),
  drain_pool: global('pool', ({ pools }, { name }, pool) =>
    pools.command(pool, { is: 'drain', deadlineMs: undefined }, name),
  ),
  undrain_pool: global('pool', ({ pools }, { name }, pool) => pools.command(pool, { is: 'undrain' }, name)),
  forget_pool: global('pool', ({ pools }, { name }, pool) => pools.forget(pool, name)),
  evict_worker: global('worker', ({ pools }, { name }, worker) => pools.evict(worker, name, false)),
  cancel_job: {
    role: 'submit',
    isGlobal: false,
    needs: 'job_id',
    run: ({ orders }, { name, tenant }, jobId) => orders.cancel(jobId, name, tenant),
  },
  redrive_job: {
    role: 'operate',
    isGlobal: false,
    needs: 'job_id',
    run: ({ orders }, { name, tenant }, jobId) => orders.redrive(jobId, name, tenant),
  },
};

/** Resolves once it is durable. Throws UNAUTHORIZED, FORBIDDEN, INVALID_PARAMS, or why it cannot be carried out. */
export async function carryOut(
  { fields }: Entry,
  brain: Ordered,
  tokens: readonly TokenEntry[],
): Promise<void> {
  const caller = identify(fields.get('token') ?? '', tokens);
  if (!caller) throw new OrchdError('UNAUTHORIZED');
  const name = fields.get('order') ?? '';
  const order = Object.hasOwn(ORDERS, name) ? ORDERS[name] : undefined;
  if (!order)
    throw new OrchdError(
      'INVALID_PARAMS',
      `the field order must be one of ${Object.keys(ORDERS).join(', ')}`,
    );
  if (!grants(caller.role, order.role) || (order.isGlobal && !isOperator(caller)))
    throw new OrchdError('FORBIDDEN', `the order ${name} needs the role ${order.role}`);
  const about = order.needs === undefined ? '' : (fields.get(order.needs) ?? '');
  if (order.needs !== undefined && about === '')
    throw new OrchdError('INVALID_PARAMS', `the order ${name} needs the field ${order.needs}`);
  await order.run(brain, caller, about);
}
