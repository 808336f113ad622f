/**
 * Work that is pulled: a consumer claims attempts, says what it holds, gives some back, and reports how they ended
 * (docs/decisions/0045).
 *
 * H1  An attempt has one holder. Only its claim makes it accepted, in one commit, and the consumer begins after that.
 * H2  Only the holder's result counts. A result of anybody else is refused and changes nothing, but for a note.
 * H3  A consumer that lost the answer to a claim gets the same attempts by the same number, until it says that it has gone
 *     on: what it then does not hold has not run.
 * H4  A consumer that needs memory of a device for each job gets a job only together with a lease, in the same commit.
 * H5  A claim is a start: nothing is handed out that governance forbids by now.
 */
import { backendOfPool, type ConsumerRecord, consumerId } from '../../model/consumer-record.ts';
import { OrchdError } from '../../model/errors.ts';
import { hold, start } from '../../model/moves.ts';
import { type AttemptRecord, BRAIN_ID, jobOfToken } from '../../model/records.ts';
import type { Outcome } from '../ports/backend.ts';
import type { JobEntry } from '../state/job-entry.ts';
import type { Turn } from '../turn.ts';
import { endAttempt } from './ending.ts';
import { takeBackForbidden } from './forbidden.ts';
import { giveUp, seen } from './presence.ts';
import { takeBack } from './progress.ts';
import type { Forgotten } from './reports.ts';

export interface ClaimOrder {
  /** The secret of the consumer. */
  readonly consumer: string;
  /** The number of this claim: the same number again gives the same attempts. */
  readonly claim: number;
  readonly atMost: number;
  /** Only these attempts; undefined: those that wait for the pool. */
  readonly tokens?: readonly string[] | undefined;
}

export interface Claimed {
  readonly attempts: readonly JobEntry[];
  readonly isDraining: boolean;
  /** Jobs wait, and no device has the memory that this consumer needs for one. */
  readonly lacksDevice: boolean;
}

/** Lends the consumer a device for the attempt. Returns whether there was one. */
export type LendDevice = (turn: Turn, consumer: ConsumerRecord, entry: JobEntry) => boolean;

export function claimAttempts(turn: Turn, order: ClaimOrder, lend: LendDevice): Claimed {
  const record = seen(turn, order.consumer);
  const isDraining = record.state === 'draining';
  const held = heldBy(turn, record);
  const repeated = held.filter(({ open }) => open?.holder?.claim === order.claim);
  if (repeated.length > 0 || isDraining || turn.state.paused)
    return { attempts: repeated, isDraining, lacksDevice: false };
  const id = consumerId(record.pool, record.name);
  const room = Math.min(order.atMost, record.slots - held.length);
  // H5.
  const waiting = takeBackForbidden(turn, waitingFor(turn, record, order.tokens, room));
  const holder = { consumer: id, fence: record.fence, claim: order.claim };
  const attempts: JobEntry[] = [];
  for (const entry of waiting) {
    if (!entry.open) continue;
    // H4.
    if (record.gpuMemoryMb !== undefined && !lend(turn, record, entry)) break;
    attempts.push(entry);
    const accepted = hold(entry.open, holder, turn.now, turn.epoch);
    turn.put('attempt', entry.token, accepted, 'claimed-by-consumer');
    turn.put('job', entry.uid, start(entry.job, turn.now), 'started');
  }
  return { attempts, isDraining, lacksDevice: attempts.length < waiting.length };
}

/** The attempts that the present registration of a consumer holds. */
function heldBy({ state }: Turn, { pool, name, fence }: ConsumerRecord): JobEntry[] {
  const held = state.pulled.held(consumerId(pool, name));
  return [...held].filter(({ open }) => open?.holder?.fence === fence);
}

function waitingFor(
  { state }: Turn,
  { pool }: ConsumerRecord,
  tokens: readonly string[] | undefined,
  room: number,
): JobEntry[] {
  const waiting = state.pulled.waiting(backendOfPool(pool));
  const found: JobEntry[] = [];
  for (const entry of tokens ? tokens.map((token) => waiting.get(token)) : waiting.values()) {
    if (found.length >= room) break;
    if (entry?.open && !entry.open.kill && !found.includes(entry)) found.push(entry);
  }
  return found;
}

export interface HeldReport {
  readonly consumer: string;
  /** The tokens that it works on, or whose results were not acknowledged yet. */
  readonly held: readonly string[];
  /** The highest number of a claim whose answer it has received, or given up. */
  readonly claimed: number;
}

export interface HeldAnswer {
  readonly consumer: ConsumerRecord;
  /** Attempts that it is to end. */
  readonly stop: readonly JobEntry[];
  /** Tokens that it does not hold any more. */
  readonly lost: readonly string[];
  /** Attempts that it holds and goes on with. */
  readonly held: readonly JobEntry[];
}

/** Compares what a consumer says that it holds with what the brain knows. */
export function reportHeld(turn: Turn, { consumer: secret, held, claimed }: HeldReport): HeldAnswer {
  const consumer = seen(turn, secret);
  const lost: string[] = [];
  const own: JobEntry[] = [];
  for (const token of new Set(held)) {
    const entry = turn.state.open.get(token);
    if (entry?.open && isHolder(entry.open, consumer)) own.push(goesOn(turn, entry, entry.open));
    else lost.push(token);
  }
  const known = new Set(held);
  for (const entry of heldBy(turn, consumer)) {
    const isGone = !known.has(entry.token) && (entry.open?.holder?.claim ?? 0) <= claimed;
    // H3.
    if (isGone) takeBack(turn, entry, 'returned');
  }
  const stop = own.filter(({ open, job }) => open?.kill || job.cancel);
  return { consumer, stop, lost, held: own };
}

/** An attempt that was held as unknown goes on: its consumer was only silent. */
function goesOn(turn: Turn, entry: JobEntry, attempt: AttemptRecord): JobEntry {
  if (attempt.state !== 'unknown' || !attempt.holder) return entry;
  turn.put('attempt', entry.token, hold(attempt, attempt.holder, turn.now, turn.epoch), 're-attached');
  if (entry.job.state === 'stale') turn.put('job', entry.uid, start(entry.job, turn.now), 'started');
  return entry;
}

export const isHolder = ({ holder }: AttemptRecord, { pool, name, fence }: ConsumerRecord): boolean =>
  holder?.consumer === consumerId(pool, name) && holder.fence === fence;

/**
 * The end of an attempt, as its consumer reports it. `returned`: it has not begun. `unknown`: the consumer cannot say what
 * became of it, such as a command that has outlived what watched it.
 */
export type ConsumerOutcome =
  | Outcome
  | { readonly ok: 'returned' }
  | { readonly ok: 'unknown'; readonly finding: Forgotten };

export interface ConsumerResult {
  readonly token: string;
  /** Undefined where the consumer did not hold the attempt when its result arrived. */
  readonly outcome: ConsumerOutcome | undefined;
  /** The attempt as the history has it, if its job is not in memory any more. */
  readonly ended?: AttemptRecord | undefined;
}

/** `true`: recorded, now or before. */
export type ResultAnswer = true | OrchdError;

export function recordResult(turn: Turn, consumer: ConsumerRecord, result: ConsumerResult): ResultAnswer {
  const { token, outcome } = result;
  const entry = turn.state.open.get(token);
  if (outcome && entry?.open && isHolder(entry.open, consumer)) {
    if (outcome.ok === 'returned') takeBack(turn, entry, 'returned');
    else if (outcome.ok === 'unknown') loseHolder(turn, entry, outcome.finding);
    else endAttempt(turn, entry, outcome);
    return true;
  }
  if (isRecorded(turn, consumer, result)) return true;
  noteFenced(turn, consumer, token);
  return new OrchdError(
    'FENCED',
    'the attempt is not held by this consumer any more: its result is not wanted',
  );
}

/** H3 must not take an attempt for one that has not run when its consumer names it no longer: so a held one has no holder. */
function loseHolder(turn: Turn, entry: JobEntry, finding: Forgotten): void {
  giveUp(turn, entry, finding);
  const { open } = entry;
  if (open) turn.put('attempt', entry.token, { ...open, holder: undefined }, 'forgotten');
}

/** Whether the attempt was closed by a result of this consumer: the answer to it was lost. */
function isRecorded({ state }: Turn, consumer: ConsumerRecord, { token, ended }: ConsumerResult): boolean {
  const n = Number(token.slice(token.lastIndexOf(':') + 1));
  const past = state.jobs.get(jobOfToken(token))?.past?.find((each) => each.n === n) ?? ended;
  return past !== undefined && isHolder(past, consumer) && past.state === 'ended';
}

/** H2: at most one note a second stands in the audit trail, however many results are refused. */
const NOTE_EVERY_MS = 1000;

function noteFenced(turn: Turn, { pool, name }: ConsumerRecord, token: string): void {
  const { brain } = turn.state;
  if (!brain || turn.now - (brain.fenced?.at ?? 0) < NOTE_EVERY_MS) return;
  const fenced = { token: token.slice(0, MAX_NOTED_CHARS), consumer: consumerId(pool, name), at: turn.now };
  turn.put('brain', BRAIN_ID, { ...brain, fenced }, 'fenced');
}

const MAX_NOTED_CHARS = 300;
