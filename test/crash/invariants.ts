/**
 * What must hold after every fault, judged from raw storage, the executor's ledger and the client's own list of
 * acknowledgements; the brain is not asked.
 */

import type { ExecutionOutcome } from '../../src/core/ports/backend.ts';
import { jobOfToken } from '../../src/model/records.ts';
import { isOpen, isTerminal } from '../../src/model/states.ts';
import type { LedgerLine } from './ledger.ts';
import { type Life, lifeOf, type Replayed } from './replay.ts';
import type { Ack, AckedJob } from './script.ts';

interface Run {
  readonly token: string;
  readonly startedAt: number;
  endedAt?: number;
  outcome?: ExecutionOutcome;
}

/** Every job has ended and holds nothing. */
export function checkEnds(replayed: Replayed): string[] {
  const problems: string[] = [];
  for (const life of [...replayed.lives.values()].flat()) {
    if (!isTerminal(life.job.state)) problems.push(`${life.uid} never ends, it is ${life.job.state}`);
    for (const { record } of life.attempts.values()) {
      if (isOpen(record.state)) problems.push(`${life.uid}:${record.n} stays ${record.state}`);
    }
  }
  return problems;
}

/** Checks that every acknowledgement of the client still holds. */
export function checkAcks(replayed: Replayed, acks: readonly Ack[], results: ResultReader): string[] {
  const problems: string[] = [];
  const admitted = new Map<string, number>();
  for (const ack of acks) {
    if (ack.did === 'submit' && ack.refused === undefined) {
      if (!replayed.lives.has(ack.id)) problems.push(`lost: ${ack.label} (${ack.id}) was acknowledged`);
      // A repeated submit counts as one job, whether the first request had been admitted or not.
      if (ack.duplicateOf === undefined || ack.again) admitted.set(ack.id, (admitted.get(ack.id) ?? 0) + 1);
    } else if (ack.did === 'wait') problems.push(...checkTold(replayed, ack.job, results));
    else if (ack.did === 'cancel') {
      const life = lifeOf(replayed, ack.job.id, ack.job.attempt);
      if (!life?.job.cancel && !isTerminal(life?.job.state ?? 'queued'))
        problems.push(`${ack.job.id}: its cancel was acknowledged and is forgotten`);
    } else if (ack.did === 'redrive') {
      const life = lifeOf(replayed, ack.job.id, ack.job.attempt);
      if (!life || life.redrives.length === 0)
        problems.push(`${ack.job.id}: its redrive was acknowledged and is forgotten`);
    }
  }
  for (const [id, times] of admitted) {
    const lives = replayed.lives.get(id)?.length ?? 0;
    if (lives !== times) problems.push(`${id} exists ${lives} times, acknowledged ${times}`);
  }
  return problems;
}

/** Reads a result from raw storage; undefined where it is gone with a purged job. */
export type ResultReader = (life: Life) => unknown;

function checkTold(replayed: Replayed, told: AckedJob, results: ResultReader): string[] {
  const life = lifeOf(replayed, told.id, told.attempt);
  if (!life) return [`lost: ${told.id} was told to be ${told.state}`];
  if (told.state === 'dead') {
    return life.states.includes('dead') ? [] : [`${told.id} was told to be dead and never was`];
  }
  if (life.job.state !== told.state) return [`${told.id} was told to be ${told.state}, is ${life.job.state}`];
  if (life.job.attempt !== told.attempt) {
    return [`${told.id} ended with attempt ${told.attempt}, now says ${life.job.attempt}`];
  }
  const result = results(life);
  if (told.result === undefined || result === undefined) return [];
  return JSON.stringify(result) === JSON.stringify(told.result) ? [] : [`${told.id}: its result changed`];
}

/** Checks the executor's ledger: no start without a durable intent, none twice, none beside or after a success. */
export function checkLedger(replayed: Replayed, ledger: readonly LedgerLine[], backoffMs: number): string[] {
  const problems: string[] = [];
  const runs = new Map<string, Run>();
  const buried = new Set<string>();
  for (const line of ledger) {
    if (line.is === 'violation') problems.push(`executor: ${line.token} was ${line.what}`);
    else if (line.is === 'tombstone') buried.add(line.token);
    else if (line.is === 'start') {
      if (runs.has(line.token)) problems.push(`token ${line.token} was executed twice`);
      if (buried.has(line.token)) problems.push(`token ${line.token} was executed after its tombstone`);
      problems.push(...checkStart(replayed, line, runs, backoffMs));
      runs.set(line.token, { token: line.token, startedAt: line.at });
    } else if (line.is === 'end') {
      const run = runs.get(line.token);
      if (run) Object.assign(run, { endedAt: line.at, outcome: line.outcome });
    }
  }
  for (const run of runs.values()) problems.push(...checkOutcome(replayed, run));
  return [...problems, ...checkTries(replayed, runs)];
}

/** The retry budget holds over every restart; a redrive gives a new one. */
function checkTries(replayed: Replayed, runs: ReadonlyMap<string, Run>): string[] {
  const problems: string[] = [];
  for (const life of [...replayed.lives.values()].flat()) {
    const failed = new Map<number, number>();
    for (const [n, { seq }] of life.attempts) {
      if (runs.get(`${life.uid}:${n}`)?.outcome?.ok !== false) continue;
      const budget = life.redrives.filter((redriven) => redriven < seq).length;
      failed.set(budget, (failed.get(budget) ?? 0) + 1);
    }
    for (const times of failed.values()) {
      if (times > life.ask.spec.max_tries)
        problems.push(`${life.uid} failed ${times} times, may ${life.ask.spec.max_tries}`);
    }
  }
  return problems;
}

function checkStart(
  replayed: Replayed,
  line: { token: string; at: number },
  runs: ReadonlyMap<string, Run>,
  backoffMs: number,
): string[] {
  const uid = jobOfToken(line.token);
  const n = attemptOf(line.token);
  const life = lifeOf(replayed, uid, n);
  const intent = life?.attempts.get(n);
  if (!life || !intent) return [`token ${line.token} was executed without a durable intent`];
  const problems: string[] = [];
  for (const run of runs.values()) {
    const earlier = life.attempts.get(attemptOf(run.token));
    if (jobOfToken(run.token) !== uid || !earlier) continue;
    if (run.outcome === undefined) problems.push(`${line.token} started while ${run.token} ran`);
    else if (run.outcome.ok === true) problems.push(`${line.token} started after ${run.token} had succeeded`);
    const redriven = life.redrives.some((seq) => seq > earlier.seq && seq < intent.seq);
    if (run.outcome?.ok === false && !redriven && line.at < (run.endedAt ?? 0) + backoffMs)
      problems.push(`${line.token} started ${line.at - (run.endedAt ?? 0)} ms after ${run.token} had failed`);
  }
  return problems;
}

/** Checks that an execution that ended has the same outcome in the log of the brain. */
function checkOutcome(replayed: Replayed, run: Run): string[] {
  const n = attemptOf(run.token);
  const life = lifeOf(replayed, jobOfToken(run.token), n);
  const record = life?.attempts.get(n)?.record;
  if (!life || !record) return [];
  if (run.outcome === undefined) return [`${run.token} was started and never ended`];
  const { ok } = run.outcome;
  const how = ok === true ? 'succeeded' : ok === false ? 'failed' : ok;
  if (record.state === 'ended' && record.outcome !== how)
    return [`${run.token} ${how}, but is recorded as ${record.outcome}`];
  if (record.state === 'abandoned') return [`${run.token} ${how}, but was abandoned`];
  if (how === 'succeeded' && life.job.state !== 'succeeded' && !life.job.cancel)
    return [`${run.token} succeeded, but its job is ${life.job.state}`];
  return [];
}

/** A success is the executor's own success, with its own result. */
export function checkResults(
  replayed: Replayed,
  ledger: readonly LedgerLine[],
  results: ResultReader,
): string[] {
  const ends = new Map<string, ExecutionOutcome>();
  for (const line of ledger) if (line.is === 'end') ends.set(line.token, line.outcome);
  const problems: string[] = [];
  for (const life of [...replayed.lives.values()].flat()) {
    if (life.job.state !== 'succeeded') continue;
    const token = `${life.uid}:${life.job.attempt}`;
    const outcome = ends.get(token);
    const result = results(life);
    if (outcome?.ok !== true)
      problems.push(`${life.uid} succeeded, but its executor knows no success of ${token}`);
    else if (result !== undefined && 'resultText' in outcome && JSON.stringify(result) !== outcome.resultText)
      problems.push(`${life.uid} has another result than its executor gave`);
  }
  return problems;
}

const attemptOf = (token: string): number => Number(token.slice(token.lastIndexOf(':') + 1));
