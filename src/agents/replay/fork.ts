/** The state of a run at one of its steps, taken from its records. Nothing is called for the steps before it. */
import { OrchdError } from '../../model/errors.ts';
import { enteredStep } from '../run.ts';
import { decisionsOf, jobsOf } from './decisions.ts';
import type { RunRecords, TakenState } from './recorded-run.ts';

/** Throws INVALID_PARAMS for a step that the run has not made, and RUN_GONE where a body is no longer kept. */
export async function takenState(records: RunRecords, step: number): Promise<TakenState> {
  const { record, run_id: runId } = records.head;
  let last = 0;
  for await (const decision of decisionsOf(records, record)) {
    if (jobsOf(decision).length === 0) continue;
    const { of, from, ended } = decision;
    last = from.step + 1;
    if (last !== step) continue;
    const { agent, phase, messages, made, asked, isRepairing, ...more } = enteredStep(of, from, ended);
    const { reply, isMerging, checkpoint } = more;
    return {
      ...{ agent, phase, messages, made, asked, isRepairing },
      ...(reply !== undefined && { reply }),
      ...(isMerging && { isMerging }),
      ...(checkpoint && { checkpoint: { at: checkpoint.at } }),
    };
  }
  const most = last === 0 ? 'has no steps' : `has the steps 1 to ${last}`;
  throw new OrchdError('INVALID_PARAMS', `run "${runId}" ${most}`, { field: 'step' });
}
