/** From the outcome that an executor reports to the one that is recorded: its result as JSON text, large ones in a blob. */
import type { AskedWait, ExecutionOutcome, Outcome, UsedTokens } from '../core/ports/backend.ts';
import type { NewJob } from '../core/ports/new-job.ts';
import type { Timers } from '../kit/env/env.ts';
import { isJsonInSlices } from '../kit/json-parser.ts';
import { inSlices } from '../kit/slices.ts';
import type { Body } from '../model/body.ts';
import { errorInfo, OrchdError } from '../model/errors.ts';
import type { AskRecord } from '../model/records.ts';
import { MAX_CHILDREN } from '../model/waiting.ts';
import type { Bodies } from './bodies.ts';
import type { EffectRunner } from './effect-runner.ts';

/** Checks requests for jobs below a job, and stores their bodies. */
export type Children = (
  ask: AskRecord,
  requests: readonly unknown[],
) => Promise<readonly (NewJob | OrchdError)[]>;

/** The id that a request gives to its job, for the message of a refusal. */
const idOf = (request: unknown): string => String((request as { job_id?: unknown } | null)?.job_id ?? '');

export class Outcomes {
  readonly #bodies: Bodies;
  readonly #runner: EffectRunner;
  readonly #timers: Timers;

  readonly #children: Children;

  constructor(bodies: Bodies, runner: EffectRunner, timers: Timers, children: Children) {
    this.#children = children;
    this.#bodies = bodies;
    this.#runner = runner;
    this.#timers = timers;
  }

  /** At once where the result needs no blob. A result that is not JSON is an error: it would break its readers. */
  recorded(outcome: ExecutionOutcome, ask: AskRecord): Outcome | Promise<Outcome> {
    if (outcome.ok === 'waits') return this.#waits(outcome, ask);
    if (outcome.ok !== true) return outcome;
    const { resultText, usage } = outcome;
    const result = this.#bodies.inline(resultText);
    if (result === undefined) return this.#stored(outcome);
    return isJson(resultText) ? succeeded(result, usage) : NOT_JSON;
  }

  /** Checks the jobs below, and stores their bodies and the state of the job: the engine then needs no more than records. */
  async #waits(outcome: AskedWait, ask: AskRecord): Promise<Outcome> {
    const { stateText, children, ...rest } = outcome;
    if (!isJson(stateText)) return NOT_JSON;
    if (children.length > MAX_CHILDREN) return TOO_MANY_CHILDREN;
    const prepared = await this.#kept(() => this.#children(ask, children));
    const refused = prepared.flatMap((each, at) =>
      each instanceof OrchdError ? [{ id: idOf(children[at]), error: each.info() }] : [],
    );
    return {
      ...rest,
      state: this.#bodies.inline(stateText) ?? (await this.#kept(() => this.#bodies.store(stateText))),
      children: prepared.filter((each): each is NewJob => !(each instanceof OrchdError)),
      ...(refused.length > 0 && { refused }),
    };
  }

  /** Puts a large result into a blob; while the disk is full the outcome waits here, and nothing is lost. */
  async #stored({ resultText, usage }: Success): Promise<Outcome> {
    if (!(await inSlices(isJsonInSlices(resultText), this.#timers))) return NOT_JSON;
    return succeeded(await this.#kept(() => this.#bodies.store(resultText)), usage);
  }

  /** Tries again while the disk is full. */
  async #kept<T>(attempt: () => Promise<T>): Promise<T> {
    const kept = await this.#runner.repeat({
      isDue: () => true,
      attempt: async () => ({ value: await attempt() }),
      onFailure: (error) => {
        if (!(error instanceof OrchdError) || !error.retriable) throw error;
      },
    });
    if (kept) return kept.value;
    throw new OrchdError('SHUTTING_DOWN');
  }
}

type Success = Extract<ExecutionOutcome, { ok: true }>;

const NOT_JSON: Outcome = { ok: false, error: errorInfo('WORKER_PROTOCOL', 'the result is not JSON') };

/** Refused as a whole: a note for each job that is too many would make a record of megabytes. */
const TOO_MANY_CHILDREN: Outcome = {
  ok: false,
  error: errorInfo('TOO_LARGE', `a job waits for at most ${MAX_CHILDREN} others at once`),
};

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

const succeeded = (result: Body, usage: UsedTokens | undefined): Outcome =>
  usage ? { ok: true, result, usage } : { ok: true, result };
