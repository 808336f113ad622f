/**
 * The consumers of a pool, which are one backend: who registers, who is silent, who leaves.
 *
 * P1  All consumers of a pool that are not silent declare the same, so that each of them can run each job of the pool.
 * P2  A consumer that falls silent, or leaves, no longer runs anything that the brain knows of: `on_unknown` of each job
 *     that it held decides.
 * P3  What nobody has claimed when the last consumer of a pool is gone has not run: it goes back to the queue.
 */
import {
  backendOfPool,
  CONSUMERS_KIND,
  type ConsumerDeclaration,
  type ConsumerRecord,
  consumerId,
} from '../../model/consumer-record.ts';
import { errorInfo, OrchdError } from '../../model/errors.ts';
import type { Reason } from '../../model/reasons.ts';
import { isKept } from '../../model/worker-pool-record.ts';
import type { BackendInfo } from '../ports/backend.ts';
import type { JobEntry } from '../state/job-entry.ts';
import type { Turn } from '../turn.ts';
import { putBackend } from './foreign.ts';
import { found, killed, takeBack } from './progress.ts';
import type { Forgotten } from './reports.ts';

export const MAX_CONSUMERS = 10_000;
/** A heartbeat is written when this share of the consumer's time has passed since the last written one. */
const WRITE_AFTER_SHARE = 1 / 3;
/** A silent consumer that holds nothing is forgotten after this time. */
const FORGET_SILENT_MS = 3_600_000;

export function register(turn: Turn, declared: ConsumerDeclaration): ConsumerRecord {
  const { consumers } = turn.state;
  const id = consumerId(declared.pool, declared.name);
  const known = consumers.get(id);
  // The same request again: the answer to the first was lost.
  if (known?.token === declared.token) return known;
  if (known && known.state !== 'silent')
    throw conflict('name_taken', `the pool "${known.pool}" has a consumer "${known.name}"`, true);
  if (!known && consumers.size >= MAX_CONSUMERS)
    throw conflict('too_many_consumers', `there are ${MAX_CONSUMERS} consumers already`, true);
  checkAlike(turn, declared);
  if (known) leave(turn, id);
  const at = turn.now;
  const record: ConsumerRecord = {
    v: 1,
    ...declared,
    fence: turn.state.seq + 1,
    state: 'live',
    registeredAt: at,
    seenAt: at,
  };
  turn.put('consumer', id, record, 'registered');
  declarePool(turn, declared.pool);
  return record;
}

const conflict = (reason: Reason, message: string, retriable: boolean): OrchdError =>
  new OrchdError('CONSUMER_CONFLICT', message, { reason, retriable });

/** P1. */
function checkAlike({ state }: Turn, declared: ConsumerDeclaration): void {
  const other = state.consumers.ofPool(declared.pool).find((each) => each.state !== 'silent');
  if (!other || declaredText(other) === declaredText(declared)) return;
  throw conflict(
    'pool_differs',
    `the consumers of the pool "${declared.pool}" declare ${declaredText(other)}`,
    false,
  );
}

const declaredText = ({ types, models, labels, paid }: Omit<ConsumerDeclaration, 'token'>): string =>
  JSON.stringify({
    types: [...types].sort(),
    models: models && [...models].sort(),
    labels: Object.fromEntries(Object.entries(labels).sort()),
    paid,
  });

/** The consumer with this secret has sent something: its time begins anew, and a silent one is there again. */
export function seen(turn: Turn, token: string): ConsumerRecord {
  const { consumers } = turn.state;
  const id = consumers.idOf(token);
  const record = id === undefined ? undefined : consumers.get(id);
  if (id === undefined || !record) throw new OrchdError('CONSUMER_GONE');
  if (record.state === 'silent') return revive(turn, id, record);
  if (turn.now - record.seenAt >= record.ttlMs * WRITE_AFTER_SHARE) {
    turn.put('consumer', id, { ...record, seenAt: turn.now }, 'heartbeat');
    return consumers.get(id) ?? record;
  }
  consumers.extend(id, turn.now + record.ttlMs);
  return record;
}

/** True where `pool` is a worker pool of a program outside that drains or is over: its consumers get nothing new. */
export function isPoolOver({ state }: Pick<Turn, 'state'>, pool: string): boolean {
  const record = state.tables.worker_pool.get(pool);
  return record?.provisioner === 'external' && !isKept(record);
}

function revive(turn: Turn, id: string, record: ConsumerRecord): ConsumerRecord {
  checkAlike(turn, record);
  const { wasDraining, ...kept } = record;
  const isDraining = wasDraining || isPoolOver(turn, record.pool);
  const present: ConsumerRecord = { ...kept, state: isDraining ? 'draining' : 'live', seenAt: turn.now };
  turn.put('consumer', id, present, 'heartbeat');
  declarePool(turn, record.pool);
  return present;
}

/** The consumer finishes what it holds, and gets nothing new. */
export function drainConsumer(turn: Turn, id: string, by: string): ConsumerRecord {
  const record = turn.state.consumers.get(id);
  if (!record) throw new OrchdError('NOT_FOUND', `there is no consumer "${id}"`);
  if (record.state !== 'live') return record;
  const draining: ConsumerRecord = { ...record, state: 'draining' };
  turn.put('consumer', id, draining, { is: 'drain', by });
  declarePool(turn, record.pool);
  return draining;
}

/** P2. The consumer is not there any more. */
export function leave(turn: Turn, id: string): void {
  const record = turn.state.consumers.get(id);
  if (!record) return;
  giveUpHeld(turn, id, `the consumer "${id}" has left`);
  turn.put('consumer', id, null, 'left');
  declarePool(turn, record.pool);
}

/** The consumers of a copy belong to the brain that it was copied from: they have to register again. */
export function removeConsumers(turn: Turn): void {
  for (const [id] of [...turn.state.consumers.entries()]) leave(turn, id);
}

/** At every tick. */
export function expireConsumers(turn: Turn): void {
  const { consumers } = turn.state;
  for (const id of consumers.expired(turn.now)) {
    const record = consumers.get(id);
    if (!record) continue;
    const wasDraining = record.state === 'draining' ? { wasDraining: true as const } : {};
    turn.put('consumer', id, { ...record, ...wasDraining, state: 'silent', seenAt: turn.now }, 'silent');
    giveUpHeld(turn, id, `the consumer "${id}" has fallen silent`);
    declarePool(turn, record.pool);
  }
}

/** Removes consumers that have been silent for long and hold nothing. Called now and then. */
export function forgetSilent(turn: Turn): void {
  const { consumers, pulled } = turn.state;
  for (const [id, { state, seenAt }] of [...consumers.entries()]) {
    const isForgotten = state === 'silent' && turn.now - seenAt >= FORGET_SILENT_MS;
    if (isForgotten && pulled.held(id).size === 0) turn.put('consumer', id, null, 'left');
  }
}

function giveUpHeld(turn: Turn, id: string, why: string): void {
  const error = errorInfo('UNKNOWN_OUTCOME', why);
  for (const entry of [...turn.state.pulled.held(id)])
    giveUp(turn, entry, { is: 'forgotten', isGone: true, error });
}

/** Nobody can say whether the attempt has done its work: a kill order counts as carried out, else `on_unknown` decides. */
export function giveUp(turn: Turn, entry: JobEntry, finding: Forgotten): void {
  if (entry.open?.kill) killed(turn, entry, finding);
  else found(turn, entry, finding);
}

/** When a brain opens its store: consumers could not be heard while none was running. */
export function openPools(turn: Turn): void {
  const { consumers } = turn.state;
  consumers.renewAll(turn.now);
  for (const pool of [...consumers.pools()]) declarePool(turn, pool);
}

/** Declares the backend of a pool, or removes it with its last consumer. */
function declarePool(turn: Turn, pool: string): void {
  const present = turn.state.consumers.ofPool(pool).filter(({ state }) => state !== 'silent');
  const name = backendOfPool(pool);
  const [first] = present;
  if (first) return putBackend(turn, infoOf(name, first, present));
  takeBackWaiting(turn, name);
  turn.fleet.remove(name);
}

/** P3. */
function takeBackWaiting(turn: Turn, backend: string): void {
  for (const entry of [...turn.state.pulled.waiting(backend).values()]) takeBack(turn, entry, 'not-run');
}

function infoOf(
  name: string,
  { pool, types, models, labels, paid }: ConsumerRecord,
  present: readonly ConsumerRecord[],
): BackendInfo {
  const live = present.filter(({ state }) => state === 'live');
  return {
    name,
    kind: CONSUMERS_KIND,
    slots: live.reduce((sum, each) => sum + each.slots, 0),
    types,
    models,
    labels: { ...labels, pool },
    paid,
    keepsResults: true,
    isPulled: true,
    registry: CONSUMERS_KIND,
  };
}
