/**
 * Runs the steps of a run again on what its calls have returned. Nothing is called: a job that a step asks for is looked up
 * in the records of the run, and its result is what the next step gets.
 *
 * P1  No model, no tool and no submit can be reached from here: replay has the records of the run, and nothing else.
 * P2  Time, budgets and refusals are those that the run has noted (decision-input.ts).
 */
import type { AgentDefinition } from '../../model/agent.ts';
import { isTerminal } from '../../model/states.ts';
import { beginRun } from '../begin-run.ts';
import { lessLeft } from '../budget.ts';
import { endedCall, refusedCall, withCosts } from '../ended-call.ts';
import { outputCheck } from '../output-check.ts';
import { type Advanced, advance, type RunOf } from '../run.ts';
import type { ChildJob, EndedCall, RunState, ToolOffer } from '../run-state.ts';
import { leftAfter } from './decision-input.ts';
import { forkedRun } from './fork-state.ts';
import type { RecordedCall, RunRecords } from './recorded-run.ts';
import { replayedTools, ToldTools } from './replayed-tools.ts';
import type { DecisionInput, UsedBudget } from './run-record.ts';

/** The agent whose steps are run. */
export interface ReplayAgent {
  readonly agent: AgentDefinition;
  /** All tools of the agent; without it they are those of the record. */
  readonly tools?: ToolOffer | undefined;
  /** The tools of the agent that the run did not have. */
  readonly others?: ToolOffer | undefined;
}

/** One decision of the run: what it was made from, and what came of it. */
export interface Decision {
  readonly n: number;
  readonly of: RunOf;
  readonly from: RunState;
  readonly ended: readonly EndedCall[] | undefined;
  readonly advanced: Advanced;
  /** The jobs that it asks for, as they are recorded; undefined for one that is not. */
  readonly calls: readonly (RecordedCall | undefined)[];
  /** The ids of those that were not admitted. */
  readonly refused: readonly string[];
}

/** The decisions that are recorded, until the run has ended or a call has not. Throws RUN_GONE, and what a step throws. */
export async function* decisionsOf(records: RunRecords, by: ReplayAgent): AsyncGenerator<Decision> {
  const { head } = records;
  const { record } = head;
  const inputs = new Map(record.inputs.map((input) => [input.n, input]));
  const counted = new CountedCalls(head.created_at);
  const replayed = new ReplayedRun(records, by);
  let run = replayed.begin();
  let ended: readonly EndedCall[] | undefined;
  for (let n = 0; n < record.decisions; n++) {
    const from = withCosts(run, ended);
    const used = { ...counted.used, ...inputs.get(n)?.used };
    const refused = inputs.get(n + 1)?.refused ?? [];
    const decision = await replayed.decide({ n, from, ended, used, input: inputs.get(n) });
    yield { ...decision, refused: refused.map(({ id }) => id) };
    const { advanced, calls } = decision;
    if (advanced.is === 'ended') return;
    run = advanced.run;
    if (advanced.pauseMs !== undefined) {
      ended = undefined;
      continue;
    }
    const found = calls.filter((call) => call !== undefined);
    if (found.some(({ state }) => !isTerminal(state))) return;
    for (const call of found) counted.add(call);
    const gone = inputs.get(n + 1)?.gone ?? [];
    const kept = found.filter(({ job_id: id }) => !gone.includes(id)).map(endedCall);
    ended = [...kept, ...refused.map(({ id, error }) => refusedCall(id, error))];
  }
}

interface Asked {
  readonly n: number;
  readonly from: RunState;
  readonly ended: readonly EndedCall[] | undefined;
  readonly used: UsedBudget;
  readonly input: DecisionInput | undefined;
}

class ReplayedRun {
  readonly #records: RunRecords;
  readonly #by: ReplayAgent;
  readonly #told = new ToldTools();
  readonly #checkOutput: RunOf['checkOutput'];
  #facts: NonNullable<DecisionInput['tools']> = [];

  constructor(records: RunRecords, by: ReplayAgent) {
    const { output } = by.agent;
    this.#records = records;
    this.#by = by;
    this.#checkOutput = output && ((text) => outputCheck(output)(text));
  }

  begin(): RunState {
    const { request, conversation, taken } = this.#records.head;
    const { agent } = this.#by;
    return taken ? forkedRun(taken, agent, request) : beginRun(agent, request, conversation);
  }

  async decide({ n, from, ended, used, input }: Asked): Promise<Omit<Decision, 'refused'>> {
    const { run_id: runId, priority } = this.#records.head;
    this.#facts = input?.tools ?? this.#facts;
    const left = lessLeft(from.budget && leftAfter(from.budget, used), input?.above);
    // Every field of RunOf is given, so that what is added to it cannot be forgotten here.
    const ofWith = (): Required<RunOf> => ({
      runId,
      priority,
      left,
      tools: this.#tools(input),
      checkOutput: this.#checkOutput,
      reports: input?.reports,
    });
    let of = ofWith();
    let advanced = advance(of, from, ended);
    const asked = advanced.is === 'waits' ? advanced.jobs : [];
    const calls = await this.#records.calls(asked.map(({ job_id: id }) => id));
    // The call of the model itself says how its tools were described. Steps are pure: they may be run once more.
    if (calls.filter((call) => call && this.#told.note(call)).length > 0 && !this.#by.tools) {
      of = ofWith();
      advanced = advance(of, from, ended);
    }
    return { n, of, from, ended, advanced, calls };
  }

  #tools(input: DecisionInput | undefined): ToolOffer {
    const { agent, tools, others } = this.#by;
    const { agent: recorded } = this.#records.head.record;
    return tools ?? replayedTools({ agent, recorded, facts: this.#facts, input, told: this.#told, others });
  }
}

/** What was used by the calls so far, for a budget that the run did not have, and so did not note. */
class CountedCalls {
  readonly #from: number;
  used: Required<UsedBudget> = { tokens: 0, cost: 0, ms: 0 };

  constructor(from: number) {
    this.#from = from;
  }

  add({ usage, cost, ended_at: endedAt }: RecordedCall): void {
    const { tokens, cost: spent, ms } = this.used;
    this.used = {
      tokens: tokens + (usage?.prompt_tokens ?? 0) + (usage?.completion_tokens ?? 0),
      cost: spent + (cost?.amount ?? 0),
      ms: Math.max(ms, (endedAt ?? this.#from) - this.#from),
    };
  }
}

/** The jobs that a decision asks for. */
export const jobsOf = ({ advanced }: Decision): readonly ChildJob[] =>
  advanced.is === 'waits' ? advanced.jobs : [];
