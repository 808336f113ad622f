/** The model answers, or asks for tools. Its last call has no tools: it must answer with what it has. */
import { DEFAULT_MAX_STEPS } from '../../model/agent.ts';
import {
  type ChatMessage,
  fail,
  goTo,
  type Next,
  type RunState,
  type Step,
  type StepContext,
} from '../run-state.ts';
import { faultNotes, MAX_CALLS_PER_ANSWER } from './call-faults.ts';
import { askModel, type ModelAnswer, takeAnswer } from './model-call.ts';

const LAST_NOTE = 'This is your last step: no tools are left. Answer now, with what you know so far.';

/** What the model is asked for in a step, and what becomes of its answer if that asks for no tools. */
export interface Turn {
  readonly event: 'llm_call' | 'synthesis';
  /** A text for the model in this call alone. */
  readonly note?: string;
  answered(run: RunState, said: { readonly messages: readonly ChatMessage[]; readonly reply: string }): Next;
}

const TURN: Turn = { event: 'llm_call', answered: (run, said) => goTo(run, 'synthesis', said) };

export const llmCall: Step = (context) => modelTurn(context, TURN);

/** One call of the model that may ask for tools. */
export function modelTurn(context: StepContext, turn: Turn): Next {
  const again = (next: StepContext): Next => ask(next, turn);
  if (!context.ended) return again(context);
  const taken = takeAnswer(context, turn.event, again);
  if ('jobs' in taken) return taken;
  const { answer, run } = taken;
  const { text, toolCalls } = answer;
  if (toolCalls.length > 0 && wasLast(context)) return endWithoutTools(run, answer, turn);
  const calls = toolCalls.slice(0, MAX_CALLS_PER_ANSWER);
  const dropped = toolCalls.slice(MAX_CALLS_PER_ANSWER).map(() => ({ code: 'TOO_MANY_CALLS' }) as const);
  const steps = [...run.steps, ...faultNotes(dropped)];
  const messages = [...run.messages, messageOf({ text, toolCalls: calls })];
  if (calls.length > 0) return goTo(run, 'tool_execution', { messages, steps });
  return turn.answered(run, { messages, reply: text });
}

/** The model asks for tools although it was given none, in its last step: only what it says counts. */
function endWithoutTools(run: RunState, { text, toolCalls }: ModelAnswer, turn: Turn): Next {
  const refused = toolCalls.map(() => ({ code: 'NO_STEPS_LEFT' }) as const);
  const steps = [...run.steps, ...faultNotes(refused)];
  if (text.trim() === '')
    return fail(
      { ...run, steps },
      'NO_STEPS_LEFT',
      'the model asked for tools in its last step, and has not answered',
    );
  const messages = [...run.messages, messageOf({ text, toolCalls: [] })];
  return turn.answered({ ...run, steps }, { messages, reply: text });
}

function ask(context: StepContext, { event, note }: Turn): Next {
  if (wasLast(context)) {
    const last = note === undefined ? LAST_NOTE : `${note}\n\n${LAST_NOTE}`;
    return askModel(context, { event, note: last });
  }
  const tools = context.tools.definitions;
  const noted = note === undefined ? {} : { note };
  return askModel(context, { event, ...noted, tools, mustCall: mustCall(context) });
}

/** True while the model must call a tool and none of its calls was made. */
const mustCall = ({ run: { agent, made } }: StepContext): boolean =>
  agent.tool_choice === 'required' && made.length === 0;

/** True if the call that is made, or has just ended, is the last one that the run may make. */
const wasLast = ({ run: { agent, answers, isWrappingUp } }: StepContext): boolean =>
  isWrappingUp || answers + 1 >= (agent.max_steps ?? DEFAULT_MAX_STEPS);

const messageOf = ({ text, toolCalls }: ModelAnswer): ChatMessage => ({
  role: 'assistant',
  content: text,
  ...(toolCalls.length > 0 && { tool_calls: toolCalls }),
});

/** The calls of tools in the last message, which are not answered yet. */
export const askedCalls = ({ messages }: RunState) => messages.at(-1)?.tool_calls ?? [];
