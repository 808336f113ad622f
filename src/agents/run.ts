/** Drives a run from step to step until it waits for jobs or has ended. Pure: what it is given decides what it returns. */
import type { JobCost } from '../model/http/jobs.ts';
import { RUN_TYPE } from '../model/run-jobs.ts';
import type { RunRecord } from './replay/run-record.ts';
import type { RunPhase } from './run-phases.ts';
import type {
  ChildJob,
  EndedCall,
  Next,
  RunReport,
  RunState,
  Step,
  StepContext,
  StepNote,
} from './run-state.ts';
import { checkpoint, withCheckpoint } from './steps/checkpoint.ts';
import { init } from './steps/init.ts';
import { llmCall } from './steps/llm-call.ts';
import { planning } from './steps/planning.ts';
import { type OutputCheck, synthesis } from './steps/synthesis.ts';
import { toolExecution } from './steps/tool-execution.ts';
import { sharedOut, withGivenBack } from './sub-runs.ts';

/** The result of every run, also of one that has failed. */
export interface RunResult {
  readonly reply: string;
  readonly steps: readonly StepNote[];
  /** 32 hexadecimal digits. */
  readonly trace_id: string;
  /** What all calls of the run have cost; absent where none has a price. */
  readonly cost?: JobCost;
  readonly error: { readonly code: string; readonly message: string } | null;
}

/** The result as the job of the run keeps it. */
export interface KeptResult extends RunResult {
  /** What replay needs beside the jobs below the run; absent for runs that began in a version that noted nothing. */
  readonly record?: RunRecord;
}

/** The result as callers of the run see it. */
export function shownResult({ record: _, ...result }: KeptResult): RunResult {
  return result;
}

/** Why nobody can read the result of a run that has ended: its session was deleted. */
export const RESULT_GONE = {
  code: 'RUN_GONE',
  message: 'what was said in the run is no longer kept',
} as const;

export type Advanced = {
  /** The phase in which the run was, and those that it has entered, in order. */
  readonly phases: readonly RunPhase[];
  readonly run: RunState;
} & (
  | { readonly is: 'waits'; readonly jobs: readonly ChildJob[]; readonly pauseMs?: number | undefined }
  | { readonly is: 'ended' }
);

export interface RunOf extends Omit<StepContext, 'run' | 'ended'> {
  readonly checkOutput: OutputCheck | undefined;
  /** Runs in the background that have ended, of which the model is told before it is asked again. */
  readonly reports?: readonly RunReport[] | undefined;
}

/** More steps than this without a job in between are a defect. */
const MAX_STEPS_AT_ONCE = 20;

/** `ended`: the jobs that the run has waited for; undefined for a new run, and after a pause. */
export function advance(of: RunOf, from: RunState, ended: readonly EndedCall[] | undefined): Advanced {
  const nextOf = nextFor(of);
  const phases = [from.phase];
  let run = withGivenBack(from, ended);
  let taken = ended;
  for (let at = 0; at < MAX_STEPS_AT_ONCE; at++) {
    const next = nextOf(run, taken);
    if (!next) return { is: 'ended', run, phases };
    const { jobs, pauseMs } = next;
    if (next.run.phase !== run.phase) phases.push(next.run.phase);
    run = next.run;
    if (jobs.length > 0 || pauseMs !== undefined) {
      const shared = sharedOut(next);
      const inTime = shared.jobs.map((job) => endingInTime(of, next.run, job));
      return { is: 'waits', run: shared.run, jobs: inTime, pauseMs, phases };
    }
    taken = undefined;
  }
  throw new Error(`a run of "${run.agent.name}" makes no progress in ${run.phase}`);
}

/** One step of the run; undefined where it has ended. */
function nextFor(of: RunOf): (run: RunState, ended: readonly EndedCall[] | undefined) => Next | undefined {
  const steps = stepsOf(of);
  return (run, ended) => {
    if (run.checkpoint) return checkpoint({ ...of, run, ended });
    const told = ended ? run : withReports(run, of.reports);
    const next = steps[run.phase]?.({ ...of, run: told, ended });
    return next && { ...next, run: withCheckpoint(run, next.run) };
  };
}

/** The model is told of each once, before it is asked. */
function withReports(run: RunState, reports: readonly RunReport[] = []): RunState {
  const { background = [] } = run;
  const open = run.phase === 'llm_call' ? reports.filter((each) => background.includes(each.run)) : [];
  if (open.length === 0) return run;
  return {
    ...run,
    messages: [...run.messages, ...open.map(({ message }) => message)],
    background: background.filter((id) => !open.some((each) => each.run === id)),
  };
}

/**
 * The state of a run that has taken the results it waited for and is about to ask for jobs: entered again with that state,
 * the step asks for them. For a run that asks for jobs next.
 */
export function enteredStep(of: RunOf, from: RunState, ended: readonly EndedCall[] | undefined): RunState {
  const nextOf = nextFor(of);
  let run = withGivenBack(from, ended);
  let taken = ended;
  for (let at = 0; at < MAX_STEPS_AT_ONCE; at++) {
    const next = nextOf(run, taken);
    if (!next) break;
    // A step that takes results and asks again at once, after a failure for example, has counted its new jobs already.
    if (next.jobs.length > 0) return taken ? { ...next.run, step: run.step } : run;
    run = next.run;
    taken = undefined;
  }
  return run;
}

/** A call ends in time for the last answer, and the last answer before the time of the run is over. */
function endingInTime({ left }: RunOf, { isWrappingUp }: RunState, job: ChildJob): ChildJob {
  const until = isWrappingUp ? left?.untilEndMs : left?.untilWrapUpMs;
  if (until === undefined) return job;
  const ms = Math.max(1, until);
  const timed = { ...job, deadline_ms: ms };
  if (job['type'] !== RUN_TYPE) return timed;
  // It leaves room for its own last answer.
  const payload = { ...(job['payload'] as object), budget: { wall_ms: ms } };
  return { ...timed, payload };
}

const stepsOf = ({ checkOutput }: RunOf): Readonly<Record<RunPhase, Step | undefined>> => ({
  init,
  planning,
  llm_call: llmCall,
  tool_execution: toolExecution,
  synthesis: synthesis(checkOutput),
  completed: undefined,
  failed: undefined,
});

export function resultOf(traceId: string, { phase, reply, steps, error, cost }: RunState): RunResult {
  const more = { steps, trace_id: traceId, ...(cost && { cost }) };
  if (phase === 'completed') return { reply: reply ?? '', ...more, error: null };
  const what = error ?? { code: 'INTERNAL', message: 'the run has ended without an answer' };
  return { reply: `This could not be answered: ${what.message}`, ...more, error: what };
}
