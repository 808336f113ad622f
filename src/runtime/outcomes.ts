/** From the outcome that an executor reports to the one that is recorded: its result as JSON text, large ones in a blob. */
import type { ExecutionOutcome, Outcome, UsedTokens } from '../core/ports/backend.ts';
import type { Timers } from '../kit/env/env.ts';
import { isJsonInSlices } from '../kit/json-parser.ts';
import { inSlices } from '../kit/slices.ts';
import { errorInfo, OrchdError } from '../model/errors.ts';
import type { Body } from '../model/records.ts';
import type { Bodies } from './bodies.ts';
import type { EffectRunner } from './effect-runner.ts';

export class Outcomes {
  readonly #bodies: Bodies;
  readonly #runner: EffectRunner;
  readonly #timers: Timers;

  constructor(bodies: Bodies, runner: EffectRunner, timers: Timers) {
    this.#bodies = bodies;
    this.#runner = runner;
    this.#timers = timers;
  }

  /** At once where the result needs no blob. A result that is not JSON is an error: it would break its readers. */
  recorded(outcome: ExecutionOutcome): Outcome | Promise<Outcome> {
    if (outcome.ok !== true) return outcome;
    const { resultText, usage } = outcome;
    const result = this.#bodies.inline(resultText);
    if (result === undefined) return this.#stored(outcome);
    return isJson(resultText) ? succeeded(result, usage) : NOT_JSON;
  }

  /** Puts a large result into a blob; while the disk is full the outcome waits here, and nothing is lost. */
  async #stored({ resultText, usage }: Success): Promise<Outcome> {
    if (!(await inSlices(isJsonInSlices(resultText), this.#timers))) return NOT_JSON;
    const stored = await this.#runner.repeat({
      isDue: () => true,
      attempt: async () => succeeded(await this.#bodies.store(resultText), usage),
      onFailure: (error) => {
        if (!(error instanceof OrchdError) || !error.retriable) throw error;
      },
    });
    if (stored) return stored;
    throw new OrchdError('SHUTTING_DOWN');
  }
}

type Success = Extract<ExecutionOutcome, { ok: true }>;

const NOT_JSON: Outcome = { ok: false, error: errorInfo('WORKER_PROTOCOL', 'the result is not JSON') };

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
