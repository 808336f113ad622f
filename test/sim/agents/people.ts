/** Those who start runs and other jobs that wait, and those who allow calls and settle what is in doubt. */
import { runView } from '../../../src/agents/run-view.ts';
import type { JobEntry } from '../../../src/core/state/job-entry.ts';
import { OrchdError } from '../../../src/model/errors.ts';
import type { RunStateName } from '../../../src/model/http/runs.ts';
import { APPROVAL_TYPE, TOOL_TYPE } from '../../../src/model/run-jobs.ts';
import type { SubmitRequest } from '../../../src/model/submit.ts';
import type { Orchestrator } from '../../../src/runtime/orchestrator.ts';
import { engineOf } from '../../fakes/engine-of.ts';
import type { World } from '../../fakes/world.ts';
import type { SimBrain } from '../brain.ts';
import { check } from '../check.ts';
import { type Call, said } from './helper.ts';

const CALL_MS = 3000;
const LOOK_MS = 150;

export interface Asked {
  readonly id: string;
  readonly number: number;
  readonly request: SubmitRequest;
  isAcknowledged: boolean;
  wasCancelled: boolean;
  redrives: number;
}

export class People {
  readonly #world: World;
  readonly #brain: SimBrain;
  readonly #ledger: readonly Call[];
  readonly asked = new Map<string, Asked>();
  /** The answers of people to approvals, by the id of the job: what they said at last. */
  readonly allowed = new Map<string, boolean>();
  /** Answers that the brain has acknowledged, by job and step. */
  readonly #answered = new Set<string>();
  decisions = 0;
  answers = 0;
  active = 0;
  failure: Error | undefined;

  constructor(world: World, brain: SimBrain, ledger: readonly Call[]) {
    this.#world = world;
    this.#brain = brain;
    this.#ledger = ledger;
  }

  plan(at: number, number: number): void {
    this.active++;
    this.#world.after(at, () => {
      void this.#live(number).finally(() => {
        this.active--;
      });
    });
  }

  async #live(number: number): Promise<void> {
    const { random } = this.#world;
    const request = this.#request(number);
    const id = request.job_id as string;
    const asked: Asked = { id, number, request, isAcknowledged: false, wasCancelled: false, redrives: 0 };
    this.asked.set(id, asked);
    for (let tries = 0; tries < 40 && !asked.isAcknowledged; tries++) {
      const answer = await this.#call((brain) => brain.submit(request));
      if (answer && !(answer instanceof Error)) asked.isAcknowledged = true;
      else await this.#world.wait(random.between(50, 800));
    }
    if (random.chance(0.15)) {
      await this.#world.wait(random.between(0, 2500));
      asked.wasCancelled = true;
      await this.#call((brain) => brain.cancel(id));
    }
    if (!random.chance(0.3)) return;
    const job = await this.#call((brain) => brain.wait(id), 20_000);
    if (job instanceof Error || job?.state !== 'dead') return;
    asked.redrives++;
    await this.#call((brain) => brain.redrive(id));
  }

  #request(number: number): SubmitRequest {
    const { random } = this.#world;
    const isRun = random.chance(0.6);
    const agent = random.chance(0.4) ? 'careful' : 'helper';
    return {
      job_id: isRun ? `run-${number}` : `steps-${number}`,
      ...(isRun
        ? { type: 'agent', payload: { agent, input: String(number) } }
        : { type: 'work', payload: { number, steps: 1 + random.int(3) }, timeout_ms: 2000 }),
      priority: random.chance(0.5) ? 'interactive' : 'batch',
      ...(random.chance(0.15) && { deadline_ms: Math.ceil(random.between(200, 6000)) }),
      ...(random.chance(0.2) && { session_id: `session-${random.int(3)}` }),
    } as SubmitRequest;
  }

  /** `toolsRegistry`: attempts of another one were cut off. */
  begin(toolsRegistry: () => string): void {
    const look = (): void => {
      void this.#look(toolsRegistry()).catch((error: Error) => {
        this.failure ??= error;
      });
      this.#world.after(this.#world.random.between(LOOK_MS, 2 * LOOK_MS), look);
    };
    look();
  }

  async #look(registry: string): Promise<void> {
    const brain = this.#brain.up;
    if (!brain) return;
    const { random } = this.#world;
    for (const entry of [...engineOf(brain).state.jobs.values()]) {
      const { ask, job, open } = entry;
      if (ask.spec.type === TOOL_TYPE && job.state === 'stale' && open && open.registry !== registry)
        await this.#decide(brain, entry);
      if (job.state !== 'waiting') continue;
      if (ask.spec.type === APPROVAL_TYPE && random.chance(0.3)) await this.#allow(brain, entry);
      else if (ask.spec.type === 'work' && random.chance(0.05)) await this.#answer(brain, entry, 'go on');
    }
  }

  /** A call that was cut off: whether it was made stands in the ledger of the tools. */
  async #decide(brain: Orchestrator, entry: JobEntry): Promise<void> {
    const { ask } = entry;
    const run = ask.spec.parent_id as string;
    if (ask.spec.on_unknown !== 'hold') return;
    const { tool } = ask.spec.tags ?? {};
    check(tool === 'send', `${ask.id} is held, and may be repeated`);
    const seen = await this.#call(async (): Promise<{ state: RunStateName; args: { number: number } }> => {
      const { payload } = await brain.get(ask.id);
      const { state } = await runView(run, (id) => brain.get(id));
      return { state, args: (payload as { args: { number: number } }).args };
    });
    const { jobs } = engineOf(brain).state;
    const isHeld = entry.job.state === 'stale' && jobs.get(run)?.job.state === 'waiting';
    if (this.#brain.up !== brain || !isHeld || seen === undefined || seen instanceof Error) return;
    const { state, args } = seen;
    check(state === 'needs_decision', `${run} is ${state} while ${ask.id} is held`);
    const wasMade = this.#ledger.some(({ job }) => job === ask.id);
    const result = { ok: true, text: said('send', args.number) };
    const settled = await this.#call((up) =>
      up.resolve(ask.id, wasMade ? { as: 'succeeded', result } : { as: 'retry' }),
    );
    if (settled !== undefined && !(settled instanceof Error)) this.decisions++;
  }

  async #allow(brain: Orchestrator, entry: JobEntry): Promise<void> {
    const approve = this.#world.random.chance(0.7);
    const { id } = entry.ask;
    // Noted before it is sent: an answer may count although nothing came back.
    this.allowed.set(id, approve || this.allowed.get(id) === true);
    await this.#answer(brain, entry, { approve, by: 'ada' });
  }

  async #answer(brain: Orchestrator, { ask, job }: JobEntry, answer: unknown): Promise<void> {
    const step = job.wait?.step ?? 0;
    const told = await this.#call(() =>
      brain.orders.answer(ask.id, step, answer, ask.tenant).then(() => 'taken' as const),
    );
    if (told !== 'taken') return;
    this.answers++;
    const key = `${ask.id} ${step}`;
    check(!this.#answered.has(key), `wait ${step} of ${ask.id} takes one answer`);
    this.#answered.add(key);
  }

  /** The answer, the refusal, or undefined when nothing came back. */
  async #call<T>(
    run: (brain: Orchestrator) => Promise<T>,
    timeoutMs = CALL_MS,
  ): Promise<T | Error | undefined> {
    const brain = this.#brain.up;
    if (!brain) return undefined;
    const answer = run(brain).catch((error: Error) => {
      if (error instanceof OrchdError && error.code !== 'SHUTTING_DOWN') return error;
      return undefined;
    });
    return Promise.race([answer, this.#world.wait(timeoutMs).then(() => undefined)]);
  }
}
