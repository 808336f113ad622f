/** The phases of a run and its legal moves. `goTo` checks this table; docs/states.md is generated from it. */

/** Every phase but the last two may fail: a step that throws ends the run with an error. */
export const RUN_TRANSITIONS = {
  init: ['planning', 'llm_call', 'failed'],
  planning: ['llm_call', 'synthesis', 'failed'],
  llm_call: ['tool_execution', 'synthesis', 'failed'],
  tool_execution: ['llm_call', 'failed'],
  synthesis: ['completed', 'llm_call', 'tool_execution', 'failed'],
  completed: [],
  failed: [],
} as const satisfies Record<string, readonly string[]>;

export type RunPhase = keyof typeof RUN_TRANSITIONS;

/** The meaning of each phase, for docs/states.md. */
export const RUN_PHASE_MEANING: Record<RunPhase, string> = {
  init: 'the rule of the agent decides whether the run plans',
  planning: 'the model writes a plan, or the branches work on the question',
  llm_call: 'the model answers, or asks for tools',
  tool_execution: 'the tools that the model asked for are called',
  synthesis:
    'what the branches said is merged; the form of the answer is checked, and a wrong one corrected once',
  completed: 'has answered',
  failed: 'ends with an error',
};

export const mayMoveRun = (from: RunPhase, to: RunPhase): boolean =>
  (RUN_TRANSITIONS[from] as readonly string[]).includes(to);
