/** Merges what the branches have said, checks the form of the answer, with one chance to correct it, and ends the run. */
import { fail, goTo, type Next, type Step, type StepContext } from '../run-state.ts';
import { modelTurn, type Turn } from './llm-call.ts';

/** Returns what is wrong with the text of an answer; undefined where it has the form that the agent promises. */
export type OutputCheck = (text: string) => string | undefined;

export const synthesis =
  (check: OutputCheck | undefined): Step =>
  (context) =>
    context.run.isMerging ? merge(context) : checked(context, check);

const MERGE: Turn = {
  event: 'synthesis',
  note: 'Others have worked on this question at the same time; what each of them says stands above. Merge it into one answer: keep what holds, leave out what was refuted, and settle where they disagree.',
  answered: (run, said) => ({ run: { ...run, ...said, isMerging: false }, jobs: [] }),
};

/** The model has merged as soon as it answers or asks for tools: what it says after these is its answer. */
function merge(context: StepContext): Next {
  const next = modelTurn(context, MERGE);
  return next.run.phase === 'synthesis' ? next : { ...next, run: { ...next.run, isMerging: false } };
}

function checked({ run }: StepContext, check: OutputCheck | undefined): Next {
  const fault = check?.(run.reply ?? '');
  if (fault === undefined) return goTo(run, 'completed');
  if (run.isRepairing)
    return fail(run, 'OUTPUT_INVALID', `the answer does not have the form that was asked for: ${fault}`);
  const content = `That answer does not have the form that was asked for: ${fault}. Answer again, with JSON of that form and nothing else.`;
  return goTo(run, 'llm_call', {
    messages: [...run.messages, { role: 'user', content }],
    isRepairing: true,
  });
}
