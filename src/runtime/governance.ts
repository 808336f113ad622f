/** The mode of governance: who changes it, and what people are shown of it. */
import type { Engine } from '../core/engine/engine.ts';
import { MOVES, type Mode, type ModePolicy, type Violation } from '../model/governance.ts';
import type { GovernanceView, ModeRequest } from '../model/http/governance.ts';
import { Commands } from './command-order.ts';
import type { Loop } from './loop.ts';
import { whenDurable } from './when-durable.ts';

export class GovernanceCommands extends Commands {
  readonly #parts: { readonly loop: Loop; readonly engine: Engine };

  constructor(loop: Loop, engine: Engine) {
    super(loop, engine);
    this.#parts = { loop, engine };
  }

  /** Throws ILLEGAL_STATE for a mode that cannot follow the present one. */
  async setByPerson({ mode, why }: ModeRequest, by: string): Promise<GovernanceView> {
    await this.order({ type: 'mode', order: { mode, by, why, isPerson: true } });
    return this.view();
  }

  async setByTrigger(mode: Mode, name: string, why: string): Promise<void> {
    await this.order({ type: 'mode', order: { mode, by: `trigger:${name}`, why, isPerson: false } });
  }

  view(): Promise<GovernanceView> {
    return whenDurable(this.#parts, governanceView(this.engine));
  }

  /** The mode as the next decision sees it. */
  get mode(): Mode {
    return this.engine.state.governance.mode;
  }
}

function governanceView({ state: { governance } }: Engine): GovernanceView {
  const { record, gate, policy } = governance;
  const { mode, since, by, why, violations, last } = record;
  return {
    ...{ mode, since, by, why, violations },
    next: MOVES[mode],
    shadow: gate.isShadow,
    allows: allowsOf(policy),
    rules: gate.rules,
    last_violations: last.map(violationView),
  };
}

function allowsOf({
  categories,
  approve,
  running,
  perMinute,
  maxTokens,
}: ModePolicy): GovernanceView['allows'] {
  return {
    ...(categories && { categories }),
    ...(approve && { approve }),
    ...(running && { running }),
    ...(perMinute && { per_minute: perMinute }),
    ...(maxTokens !== undefined && { max_tokens: maxTokens }),
  };
}

const violationView = ({ at, job, tenant, rule, tool, isCritical, isShadow }: Violation) => ({
  ...{ at, job_id: job, tenant, rule, critical: isCritical, shadow: isShadow },
  ...(tool !== undefined && { tool }),
});
