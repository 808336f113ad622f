/**
 * Makes the budgets of tokens limits of the brain (docs/money.md): those that the token file has when the brain starts,
 * and whenever the file changes. A new token is accepted once its budget is durable.
 */
import type { Cancel } from '../kit/env/env.ts';
import type { Logger } from '../kit/logger.ts';
import { describeThrown } from '../kit/redact.ts';
import { Service } from '../kit/service.ts';
import type { TokenBudget } from '../runtime/commands.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import type { TokenFile } from '../wire/token-file.ts';
import type { TokenEntry } from '../wire/tokens.ts';

export class TokenBudgets extends Service {
  readonly #tokens: TokenFile;
  readonly #orchestrator: Orchestrator;
  readonly #logger: Logger;
  #cancel: Cancel | undefined;

  constructor(tokens: TokenFile, orchestrator: Orchestrator, logger: Logger) {
    super();
    this.#tokens = tokens;
    this.#orchestrator = orchestrator;
    this.#logger = logger;
  }

  protected async onStart(): Promise<void> {
    const { limits } = this.#orchestrator;
    this.#cancel = this.#tokens.prepareWith((entries) => limits.setOfTokens(entries.flatMap(budgetOf)));
    try {
      await this.#tokens.update();
    } catch (error) {
      // On a full disk, for example: nothing new is admitted then, and the token file tries again.
      this.#logger.warn('the budgets of tokens cannot be set yet', { reason: describeThrown(error) });
    }
  }

  protected async onStop(): Promise<void> {
    this.#cancel?.();
  }
}

/** The budget of a token; none for one without. */
function budgetOf({ tenant, name, cost_budget, window, time_zone, hard }: TokenEntry): TokenBudget[] {
  if (cost_budget === undefined) return [];
  return [
    {
      tenant,
      name,
      costBudget: cost_budget,
      ...(window !== undefined && { window }),
      ...(time_zone !== undefined && { timeZone: time_zone }),
      ...(hard !== undefined && { hard }),
    },
  ];
}
