/** An engine whose jobs cost money: one micro-unit for each token of the answer, and limits that hold them. */
import { Engine } from '../../src/core/engine/engine.ts';
import type { Gate } from '../../src/core/limits/gate.ts';
import type { Outcome } from '../../src/core/ports/backend.ts';
import type { LooseRecord } from '../../src/core/ports/store.ts';
import { Restore } from '../../src/core/restore.ts';
import type { EngineSettings } from '../../src/core/settings.ts';
import { bundleOf } from '../../src/core/state/job-entry.ts';
import { errorInfo, OrchdError } from '../../src/model/errors.ts';
import type { LimitSpec } from '../../src/model/limit-records.ts';
import type { PriceSpec } from '../../src/model/price.ts';
import { SMALL_KINDS } from '../../src/model/records.ts';
import { EngineKit, type Fields, SETTINGS } from './engine-kit.ts';

/** A token of the answer costs one micro-unit: an attempt holds its `maxOutput`, and costs the tokens of its answer. */
export const PER_TOKEN: PriceSpec = { model: '*', output: 1_000_000 };

const usage = (output: number) => ({
  input: 0,
  cacheRead: 0,
  cacheWrite: 0,
  output,
  reasoning: 0,
  decodeMs: 1,
});

export const cost = {
  success: (output: number): Outcome => ({ ok: true, result: '1', usage: usage(output) }),
  failure: (output: number, retriable = false): Outcome => ({
    ok: false,
    error: { ...errorInfo('EXECUTION_FAILED'), retriable },
    usage: usage(output),
  }),
  cancelled: (output: number): Outcome => ({ ok: 'cancelled', usage: usage(output) }),
};

export class MoneyKit extends EngineKit {
  readonly #settings: Partial<EngineSettings>;

  constructor(limits: readonly LimitSpec[], settings: Partial<EngineSettings> = {}, engine?: Engine) {
    const all = { limits, prices: [PER_TOKEN], queueCapacity: 100_000, ...settings };
    super(all, () => 0, engine);
    this.#settings = all;
  }

  /** A job whose attempts cost at most so much. */
  ask(id: string, most: number, fields: Fields = {}): void {
    this.submit(id, { maxOutput: most, ...fields });
  }

  /** The code and reason of a refusal; undefined if the job is admitted. */
  refusalOf(id: string, most: number | undefined, fields: Fields = {}): string | undefined {
    const answer = this.trySubmit(id, { ...(most !== undefined && { maxOutput: most }), ...fields });
    return answer instanceof OrchdError ? `${answer.code} ${answer.details.reason}` : undefined;
  }

  setLimits(...limits: LimitSpec[]): void {
    const { reply } = this.step({ type: 'limits', limits, by: 'ops' });
    if (reply instanceof OrchdError) throw reply;
  }

  gate(scope: string): Gate {
    const gate = this.engine.queue.gates.find(scope, this.now);
    if (!gate) throw new Error(`"${scope}" has no limit of starts`);
    return gate;
  }

  /** What a scope has used: [running, reserved, settled]. */
  used(scope: string): [number, number, number] {
    const { running, reserved, settled } = this.gate(scope);
    return [running, reserved, settled];
  }

  /** The ids of the jobs with an open attempt. */
  get running(): string[] {
    return [...this.engine.state.open.values()].map(({ ask }) => ask.id).sort();
  }

  /** Another brain, started from the records of this one. Backends declare themselves again. */
  restarted(now: number = this.now): MoneyKit {
    const { state, queue } = this.engine;
    const engine = new Engine({ settings: { ...SETTINGS, ...this.#settings }, random: () => 0 });
    const restore = new Restore(engine.state, now);
    for (const entry of state.jobs.values()) restore.job(bundleOf(entry));
    for (const kind of SMALL_KINDS)
      for (const [id, after] of state.tables[kind].entries())
        restore.record({ kind, id, after } as LooseRecord);
    if (state.brain) restore.record({ kind: 'brain', id: 'brain', after: state.brain } as LooseRecord);
    restore.finish({ seq: state.seq, at: this.now, indexedUpTo: 0 });
    const kit = new MoneyKit([], this.#settings, engine);
    kit.now = now;
    kit.step({ type: 'open', owner: 'kit' });
    for (const { info } of queue.fleet.backends.values()) kit.step({ type: 'backend', info });
    return kit;
  }
}
