/** What an offer carries beside its token. */

import type { OfferedConversation, Waited } from '../core/ports/backend.ts';
import type { JobEntry } from '../core/state/job-entry.ts';
import type { Body } from '../model/body.ts';
import { OrchdError } from '../model/errors.ts';
import type { AskRecord } from '../model/records.ts';
import type { RefusedChild, WaitRecord } from '../model/waiting.ts';
import type { Bodies } from './bodies.ts';

export interface OfferedTexts {
  readonly payloadText: string;
  readonly waited?: Waited | undefined;
  readonly conversation?: OfferedConversation | undefined;
}

/** What the job goes on with after a wait. */
export async function readWait(
  { state: _, answer, refused, ...rest }: WaitRecord,
  state: Body | undefined,
  bodies: Bodies,
): Promise<Waited> {
  if (state === undefined) throw new OrchdError('STORE_CORRUPT', 'what the job goes on with is missing');
  const { seals } = bodies;
  const opened = (child: RefusedChild) => seals.openError(child.error).then((error) => ({ ...child, error }));
  return {
    ...rest,
    stateText: await bodies.read(state),
    ...(answer !== undefined && { answer: await seals.open(answer) }),
    ...(refused && { refused: await Promise.all(refused.map(opened)) }),
  };
}

/** The ask of a job as its backend gets it: for the model that its route has chosen. */
export function offeredAsk({ ask, job: { place } }: JobEntry): AskRecord {
  if (!place) return ask;
  const { model, modelRef, contextTokens } = place;
  return { ...ask, spec: { ...ask.spec, model }, modelRef, contextTokens };
}
