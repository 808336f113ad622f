/** The first step: whether the run plans, or has branches, is decided by the agent's rule. */
import type { AgentDefinition } from '../../model/agent.ts';
import { goTo, type Step } from '../run-state.ts';

export const init: Step = ({ run }) =>
  goTo(run, plans(run.agent, asked(run.messages)) ? 'planning' : 'llm_call');

export function plans({ plan = 'never', branches }: AgentDefinition, question: string): boolean {
  if (branches) return true;
  if (plan === 'never' || plan === 'always') return plan === 'always';
  return question.length >= plan.min_characters;
}

const asked = (messages: readonly { readonly role: string; readonly content: string }[]): string =>
  messages.findLast(({ role }) => role === 'user')?.content ?? '';
