/** The facts about other runs and budgets that a step of a run is told. A run notes them for replay (replay/run-record.ts). */

/** What is left when a step begins; an absent number is not limited. */
export interface BudgetLeft {
  readonly tokens?: number;
  readonly cost?: number;
  /** Until the model is to be asked for its last answer. */
  readonly untilWrapUpMs?: number;
  /** Until the time of the run is over. */
  readonly untilEndMs?: number;
}

/** The agent that a call of a tool is a run of. */
export interface CalledAgent {
  readonly name: string;
  /** The call does not wait for the answer. */
  readonly isBackground: boolean;
}

/** A run in the background has ended: what the model is told of it. */
export interface RunReport {
  readonly run: string;
  readonly message: { readonly role: 'user'; readonly content: string };
}
