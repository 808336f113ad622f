/** From the outcome that an executor reports to the one that is recorded: its result as JSON text, large ones in a blob. */
import type { ExecutionOutcome, Outcome, UsedTokens } from '../core/ports/backend.ts';
import { errorInfo, OrchdError } from '../model/errors.ts';
import type { Body } from '../model/records.ts';
import type { Bodies } from './bodies.ts';
import type { EffectRunner } from './effect-runner.ts';

export class Outcomes {
  readonly #bodies: Bodies;
  readonly #runner: EffectRunner;

  constructor(bodies: Bodies, runner: EffectRunner) {
    this.#bodies = bodies;
    this.#runner = runner;
  }

  /** At once where the result needs no blob. */
  recorded(outcome: ExecutionOutcome): Outcome | Promise<Outcome> {
    const written = withText(outcome);
    if (written.ok !== true) return written;
    const result = this.#bodies.inline(written.resultText);
    return result === undefined ? this.#stored(written) : succeeded(result, written.usage);
  }

  /** Puts a large result into a blob; while the disk is full the outcome waits here, and nothing is lost. */
  async #stored({ resultText, usage }: WrittenResult): Promise<Outcome> {
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

type WrittenOutcome = Exclude<Outcome, { ok: true }> | WrittenResult;

interface WrittenResult {
  readonly ok: true;
  readonly resultText: string;
  readonly usage?: UsedTokens | undefined;
}

/** A result that is given as text must be JSON: anything else would break its readers. */
function withText(outcome: ExecutionOutcome): WrittenOutcome {
  if (outcome.ok !== true) return outcome;
  if ('result' in outcome)
    return { ok: true, resultText: JSON.stringify(outcome.result) ?? 'null', usage: outcome.usage };
  try {
    JSON.parse(outcome.resultText);
    return outcome;
  } catch {
    return { ok: false, error: errorInfo('WORKER_PROTOCOL', 'the result is not JSON') };
  }
}

const succeeded = (result: Body, usage: UsedTokens | undefined): Outcome =>
  usage ? { ok: true, result, usage } : { ok: true, result };
