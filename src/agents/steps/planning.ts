/** The model makes a plan, which stays before it while it works; or the branches work on the question. */
import { goTo, type Next, type Step, type StepContext } from '../run-state.ts';
import { branches } from './branches.ts';
import { askModel, isShortOfBudget, takeAnswer } from './model-call.ts';

const PLAN_NOTE =
  'Before you answer, write a short plan: the steps in order, and for each the tool that it needs, if any. Write only the plan.';

export const planning: Step = (context) => {
  if (context.run.agent.branches) return branches(context);
  if (!context.ended) return askForPlan(context);
  const taken = takeAnswer(context, 'plan', askForPlan);
  if ('jobs' in taken) return taken;
  const { answer, run } = taken;
  const plan = { role: 'assistant', content: `Plan:\n${answer.text}` } as const;
  const goOn = { role: 'user', content: 'Go on by this plan.' } as const;
  return goTo(run, 'llm_call', { messages: [...run.messages, plan, goOn] });
};

/** A plan is of no use where only the answer is left. */
const askForPlan = (context: StepContext): Next =>
  isShortOfBudget(context)
    ? goTo(context.run, 'llm_call')
    : askModel(context, { event: 'plan', note: PLAN_NOTE });
