/** What the gate is asked and what it says, and the verdicts that it remembers. */
import type { Mode } from '../../model/governance.ts';

/** A job as the rules see it. */
export interface GovernedJob {
  readonly type: string;
  readonly tenant: string;
  readonly model: string | undefined;
  /** What else the model is called, and the route that has chosen it: a rule may name any of them. */
  readonly otherNames?: readonly string[] | undefined;
  /** The agents of the runs above the job, and its own if it is a run. */
  readonly agents: readonly string[];
  /** Set for calls of tools alone. */
  readonly tool?: GovernedTool | undefined;
}

export interface GovernedTool {
  readonly name: string;
  readonly category: string | undefined;
  /** A person has allowed this call. */
  readonly isApproved: boolean;
}

export type Verdict =
  | { readonly is: 'allow' }
  | { readonly is: 'deny'; readonly rule: string; readonly message: string; readonly isCritical: boolean }
  | { readonly is: 'approve'; readonly rule: string; readonly message: string };

const MAX_VERDICTS = 10_000;

class Branch {
  readonly next = new Map<string | undefined, Branch>();
  verdict: Verdict | undefined;

  at(name: string | undefined): Branch {
    const known = this.next.get(name);
    if (known) return known;
    const made = new Branch();
    this.next.set(name, made);
    return made;
  }
}

/**
 * The same agents call the same tools again and again. A verdict is found by one look-up for each name, in a tree of maps; a
 * key of all names together would have to be made and hashed for each decision.
 */
export class Verdicts {
  #root = new Branch();
  #size = 0;

  /** The verdict about such a job, which `decide` says where none is remembered. */
  of(mode: Mode, job: GovernedJob, decide: () => Verdict): Verdict {
    const branch = this.#branchOf(mode, job);
    if (branch.verdict) return branch.verdict;
    const verdict = decide();
    if (++this.#size > MAX_VERDICTS) {
      this.#root = new Branch();
      this.#size = 0;
    } else branch.verdict = verdict;
    return verdict;
  }

  #branchOf(mode: Mode, { type, tenant, model, otherNames, agents, tool }: GovernedJob): Branch {
    let branch = this.#root.at(mode).at(type).at(tenant).at(model);
    // The lists end with what no name is.
    if (otherNames) for (const name of otherNames) branch = branch.at(name);
    branch = branch.at(undefined);
    for (const agent of agents) branch = branch.at(agent);
    branch = branch.at(undefined);
    return tool
      ? branch
          .at(tool.name)
          .at(tool.category)
          .at(tool.isApproved ? 'approved' : '')
      : branch;
  }
}
