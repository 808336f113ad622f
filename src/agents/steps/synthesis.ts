/** Checks the form of the answer, with one chance to correct it, and ends the run. */
import { fail, goTo, type Step } from '../run-state.ts';

/** Returns what is wrong with the text of an answer; undefined where it has the form that the agent promises. */
export type OutputCheck = (text: string) => string | undefined;

export const synthesis =
  (check: OutputCheck | undefined): Step =>
  ({ run }) => {
    const fault = check?.(run.reply ?? '');
    if (fault === undefined) return goTo(run, 'completed');
    if (run.isRepairing)
      return fail(run, 'OUTPUT_INVALID', `the answer does not have the form that was asked for: ${fault}`);
    const content = `That answer does not have the form that was asked for: ${fault}. Answer again, with JSON of that form and nothing else.`;
    return goTo(run, 'llm_call', {
      messages: [...run.messages, { role: 'user', content }],
      isRepairing: true,
    });
  };
