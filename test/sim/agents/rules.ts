/** What must be true of runs at the end, by the raw log, the ledger of the tools and what people have said. */
import type { RunResult } from '../../../src/agents/run.ts';
import type { JobView } from '../../../src/model/http/jobs.ts';
import { type AskRecord, type Change, type JobRecord, jobOfToken } from '../../../src/model/records.ts';
import { TOOL_TYPE } from '../../../src/model/run-jobs.ts';
import { check } from '../check.ts';
import { type Call, callsOf, replyOf, said, wholeReply } from './helper.ts';
import type { Asked, People } from './people.ts';

/** The jobs of the log, with the number of their attempts. */
export interface LoggedJob {
  readonly ask: AskRecord;
  job: JobRecord | undefined;
  attempts: number;
}

export function jobsIn(changes: readonly Change[]): Map<string, LoggedJob> {
  const jobs = new Map<string, LoggedJob>();
  const tokens = new Set<string>();
  for (const { kind, id, after } of changes) {
    if (kind === 'ask' && after && !jobs.has(id)) jobs.set(id, { ask: after, job: undefined, attempts: 0 });
    const known = jobs.get(kind === 'attempt' ? jobOfToken(id) : id);
    if (!known || !after) continue;
    if (kind === 'job') known.job = after;
    if (kind !== 'attempt' || tokens.has(id)) continue;
    tokens.add(id);
    known.attempts++;
  }
  return jobs;
}

/** No call runs without an attempt of its own; one with an effect runs once, and only if a person allowed it where one must. */
export function checkCalls(
  ledger: readonly Call[],
  jobs: ReadonlyMap<string, LoggedJob>,
  { asked, allowed }: People,
): void {
  const made = new Map<string, number>();
  for (const { job, tool } of ledger) {
    const times = (made.get(job) ?? 0) + 1;
    made.set(job, times);
    check(tool !== 'send' || times === 1, `${job}, a call with an effect, was made ${times} times`);
    check(
      times <= (jobs.get(job)?.attempts ?? 0),
      `${job} was called ${times} times, more often than it was tried`,
    );
  }
  for (const { id, request } of asked.values()) {
    const sends = [...made.keys()].filter((job) => job.startsWith(`${id}.`) && isSend(jobs.get(job)));
    check(sends.length <= 1, `${id} has sent ${sends}`);
    const { agent } = (request.payload ?? {}) as { agent?: string };
    if (agent !== 'careful' || sends.length === 0) continue;
    const isAllowed = [...allowed].some(([job, approve]) => job.startsWith(`${id}.`) && approve);
    check(isAllowed, `${sends} was made although nobody has allowed it`);
  }
}

/** The payload of a job in a session is sealed: its tags say which tool it calls. */
const toolOf = (logged: LoggedJob | undefined): string | undefined => logged?.ask.spec.tags?.['tool'];
const isSend = (logged: LoggedJob | undefined): boolean => toolOf(logged) === 'send';
const succeeded = ({ job }: LoggedJob): boolean => job?.state === 'succeeded';

/** A run that was not stopped has answered with what its calls have returned, however often it was interrupted. */
export function checkAnswer(asked: Asked, view: JobView, jobs: ReadonlyMap<string, LoggedJob>): void {
  const { id, number, request, wasCancelled, redrives } = asked;
  if (view.state === 'cancelled')
    return check(wasCancelled, `${id} is cancelled, and nobody has cancelled it`);
  if (view.state === 'dead') {
    const code = view.error?.code;
    const isMeant = request.deadline_ms !== undefined || code === 'QUEUE_FULL';
    return check(isMeant, `${id} is dead by ${JSON.stringify(view.error)}`);
  }
  const { reply, error } = view.result as RunResult;
  const below = [...jobs.values()].filter(({ ask }) => ask.spec.parent_id === id);
  if (error) {
    const failed = below.filter((each) => each.ask.spec.type === 'inference' && !succeeded(each));
    return check(
      failed.length >= 2 || error.code === 'QUEUE_FULL',
      `${id} has failed by ${JSON.stringify(error)}`,
    );
  }
  const calls = below.filter(({ ask }) => ask.spec.type === TOOL_TYPE);
  // A call that was denied, or refused because the disk was full, is no job.
  const isWhole = calls.length === callsOf(number) && calls.every(succeeded);
  // The calls of a run that was redriven were cancelled when it had died, and say so.
  if (isWhole && redrives === 0)
    return check(reply === wholeReply(number), `${id} answered "${reply}", not "${wholeReply(number)}"`);
  const [look = '', send = ''] = reply.slice(replyOf(number, []).length).split('; ');
  for (const [tool, heard] of [
    ['look', look],
    ['send', send],
  ] as const) {
    const isMade = calls.some((call) => toolOf(call) === tool && succeeded(call));
    check(heard === said(tool, number) || heard.startsWith('error: '), `${id} heard "${heard}" of ${tool}`);
    if (tool === 'send' && redrives === 0)
      check(isMade === (heard === said(tool, number)), `${id} heard "${heard}" of ${tool}`);
  }
}
