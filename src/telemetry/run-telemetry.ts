/**
 * Tells what the runs of agents do, as JSON lines for machines: `state_transition`, `step_started`, `step_completed` and
 * `agent_defect`. It observes durable changes, so every line states a fact.
 *
 * R1  A line is derived from one change that is written once: the acceptance of an attempt, its end, or the end of a job.
 *     After a restart nothing is told again; what was begun before is known from the recovered jobs.
 * R2  `tokens_used` is told of calls of models alone, by the attempt that used them: those of a run would be counted twice.
 * R3  Lines have ids, names and numbers, and no text of a caller, a model or a tool.
 */
import type { LogFields, Logger } from '../kit/logger.ts';
import { causeName } from '../model/causes.ts';
import { type AttemptRecord, type Change, type JobRecord, tokenOf } from '../model/records.ts';
import { APPROVAL_TYPE, RUN_TYPE, type RunLabel, runLabelIn } from '../model/run-jobs.ts';
import { isOpen, isTerminal } from '../model/states.ts';
import { spanIdOf, traceIdOf } from '../model/trace.ts';
import { totalTokens } from '../model/usage.ts';
import type { ObservedJob, ObservedState } from '../runtime/observer.ts';
import { type RunStep, runStepOf } from './run-step.ts';
import type { RunEnd, RunTally } from './run-tally.ts';

type Fields = { -readonly [K in keyof LogFields]: LogFields[K] };

/** The kind of step that begins with a phase of a run. */
const STEP_OF_PHASE: Readonly<Record<string, string>> = {
  planning: 'plan',
  llm_call: 'llm_call',
  tool_execution: 'tool_call',
  synthesis: 'synthesis',
};
const RUN_ENDS: ReadonlySet<string> = new Set<RunEnd>(['completed', 'failed', 'cancelled']);
/** Jobs that are steps from their admission to their end, whatever their attempts do. */
const LASTING: ReadonlySet<string> = new Set([APPROVAL_TYPE, RUN_TYPE]);
/** The kind of the line about the end of a run. */
const END = 'end';
const FIRST_PHASE = 'init';

export class RunTelemetry {
  readonly #logger: Logger;
  readonly #tally: RunTally;
  /** The attempts of steps whose start was told, by token, until their end is. */
  readonly #begun = new Set<string>();

  constructor(logger: Logger, tally: RunTally) {
    this.#logger = logger.child({ actor: 'agents' });
    this.#tally = tally;
  }

  recovered(jobs: Iterable<ObservedJob>): void {
    this.#begun.clear();
    for (const { uid, ask, open } of jobs)
      if (open?.acceptedAt !== undefined && runStepOf(ask)) this.#begun.add(tokenOf(uid, open.n));
  }

  changed(changes: readonly Change[], _now: number, observed: ObservedState): void {
    for (const [at, { kind, id, after, cause }] of changes.entries()) {
      if (!after || causeName(cause) === 'redrive') continue;
      if (kind === 'attempt') this.#attempt(after, observed, changes, at);
      else if (kind === 'ask') this.#asked(observed.job(id));
      else if (kind === 'job' && isTerminal(after.state)) this.#ended(after, observed.job(id));
    }
  }

  /** What does nothing but wait begins when it is admitted: a request to allow a call, and a run below another one. */
  #asked(entry: ObservedJob | undefined): void {
    if (!entry || !LASTING.has(entry.ask.spec.type)) return;
    const step = runStepOf(entry.ask);
    if (step) this.#write('step_started', stepFields(entry, step, 0));
  }

  #ended(job: JobRecord, entry: ObservedJob | undefined): void {
    if (entry?.ask.spec.type === RUN_TYPE) this.#runCutOff(job, entry);
    if (!entry || !LASTING.has(entry.ask.spec.type)) return;
    const step = runStepOf(entry.ask);
    if (!step) return;
    const fields = stepFields(entry, step, 0);
    fields.error_code = job.error?.code;
    this.#completed(fields, step, (job.endedAt ?? 0) - entry.ask.createdAt, job.state);
  }

  #attempt(attempt: AttemptRecord, observed: ObservedState, changes: readonly Change[], at: number): void {
    const entry = observed.job(attempt.job);
    if (!entry || entry.ask.spec.type === APPROVAL_TYPE) return;
    if (entry.ask.spec.type === RUN_TYPE) {
      const label = runLabelIn(attempt.label);
      if (label && hasCounted(attempt, changes, at)) this.#advanced(entry, attempt, label);
      return;
    }
    const step = runStepOf(entry.ask);
    if (!step) return;
    const token = tokenOf(entry.uid, attempt.n);
    if (isOpen(attempt.state)) {
      if (attempt.state === 'accepted') this.#begin(entry, step, attempt, token);
      return;
    }
    // An attempt that was turned away, or abandoned before it was accepted, has not run: there was no step.
    if (attempt.outcome !== undefined && attempt.outcome !== 'turned_away')
      this.#begin(entry, step, attempt, token);
    if (this.#begun.delete(token)) this.#stepEnded(entry, step, attempt);
  }

  #begin(entry: ObservedJob, step: RunStep, { n }: AttemptRecord, token: string): void {
    if (this.#begun.has(token)) return;
    this.#begun.add(token);
    this.#write('step_started', stepFields(entry, step, n));
  }

  #stepEnded(entry: ObservedJob, step: RunStep, attempt: AttemptRecord): void {
    const fields = stepFields(entry, step, attempt.n);
    if (attempt.usage) fields.tokens_used = totalTokens(attempt.usage);
    fields.error_code = attempt.error?.code;
    this.#completed(fields, step, durationOf(attempt), attempt.outcome ?? 'unknown');
  }

  #completed(fields: Fields, { event, model_role: role }: RunStep, ms: number, outcome: string): void {
    const durationMs = Math.max(0, ms);
    fields.duration_ms = durationMs;
    fields.outcome = outcome;
    this.#tally.step({ event, role: role ?? '', outcome }, durationMs);
    this.#write('step_completed', fields);
  }

  /** An attempt of a run has decided: the phases that it went through. */
  #advanced(entry: ObservedJob, attempt: AttemptRecord, { agent, phases, isDefect }: RunLabel): void {
    const about = runFields(entry, attempt.n, agent);
    about.duration_ms = durationOf(attempt);
    for (const [at, to] of phases.slice(1).entries()) {
      const from = phases[at] as string;
      if (from === 'synthesis') this.#synthesis(about);
      this.#moved(about, from, to);
    }
    if (!isDefect) return;
    this.#tally.defects++;
    this.#logger.error('agent_defect', { ...about, event: 'agent_defect', error_code: 'INTERNAL' });
  }

  /** The answer is checked in the attempt that goes on from the synthesis: the step has no job of its own. */
  #synthesis(about: Fields): void {
    const { duration_ms: durationMs, ...fields } = about;
    this.#write('step_started', { ...fields, event: 'synthesis' });
    this.#tally.step({ event: 'synthesis', role: '', outcome: 'succeeded' }, Number(durationMs));
    this.#write('step_completed', { ...about, event: 'synthesis', outcome: 'succeeded' });
  }

  #moved(about: Fields, from: string, to: string): void {
    if (RUN_ENDS.has(to)) this.#tally.ended[to as RunEnd]++;
    this.#write('state_transition', { ...about, event: STEP_OF_PHASE[to] ?? END, from, to });
  }

  /** The run has ended without a result: it was cancelled, its time was over, or its attempts have failed. */
  #runCutOff({ state, attempt, error }: JobRecord, entry: ObservedJob): void {
    if (state === 'succeeded') return;
    const { agent, phases } = runLabelIn(entry.job.wait?.label) ?? {
      agent: undefined,
      phases: [FIRST_PHASE],
    };
    const about = runFields(entry, attempt, agent);
    about.error_code = error?.code;
    this.#moved(about, phases.at(-1) as string, state === 'cancelled' ? 'cancelled' : 'failed');
  }

  #write(what: 'state_transition' | 'step_started' | 'step_completed', fields: LogFields): void {
    this.#logger.info(what, fields);
  }
}

/**
 * Whether the job took up what its attempt decided. A job that was cancelled meanwhile did not: then no change of the same
 * commit says that it waits or has succeeded.
 */
function hasCounted({ job }: AttemptRecord, changes: readonly Change[], at: number): boolean {
  for (let next = at + 1; next < changes.length; next++) {
    const { kind, id, after } = changes[next] as Change;
    if (kind === 'job' && id === job) return after?.state === 'waiting' || after?.state === 'succeeded';
  }
  return false;
}

const durationOf = ({ acceptedAt, endedAt }: AttemptRecord): number =>
  acceptedAt === undefined || endedAt === undefined ? 0 : Math.max(0, endedAt - acceptedAt);

function stepFields({ uid, ask }: ObservedJob, { runId, ...tags }: RunStep, attempt: number): Fields {
  return {
    event: tags.event,
    trace_id: traceIdOf(uid, ask),
    span_id: spanIdOf(uid, ask, attempt),
    parent_span_id: parentSpanOf(ask.trace),
    run_id: runId,
    job_id: uid,
    agent: tags.agent,
    model_role: tags.model_role,
    tool: tags.tool,
    model_ref: ask.modelRef ?? ask.spec.model,
  };
}

function runFields({ uid, ask }: ObservedJob, attempt: number, agent: string | undefined): Fields {
  return {
    trace_id: traceIdOf(uid, ask),
    span_id: spanIdOf(uid, ask, attempt),
    parent_span_id: spanIdOf(uid, ask, 0),
    run_id: ask.id,
    job_id: uid,
    agent,
  };
}

/** The span of whoever asked for the job. */
const parentSpanOf = (trace: string | undefined): string | undefined => trace?.split('-')[1];
