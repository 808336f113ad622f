/** Builds the suite's offers. It is the only file of the suite that depends on the form of an offer. */

import type { Offer } from '../../core/ports/backend.ts';
import { type SpecDefaults, specOf } from '../../model/job-spec.ts';
import { type AskRecord, jobOfToken } from '../../model/records.ts';
import type { Commander } from '../../model/worker-wire.ts';

export interface OfferedWork {
  readonly type: string;
  readonly payloadText: string;
  /** The registry in which the offer expects to find the token's history; undefined: any. */
  readonly registry: string | undefined;
  /** The hash of the job's body, where its id was chosen by a caller. */
  readonly hash?: string | undefined;
}

const SPEC: SpecDefaults = {
  agent: 'someone',
  type: '',
  priority: 'batch',
  score: 0,
  weight: 1,
  max_tries: 3,
};

export function offerOf(who: Commander, token: string, work: OfferedWork): Offer {
  const { type, payloadText, registry, hash } = work;
  const ask: AskRecord = {
    v: 2,
    id: jobOfToken(token),
    tenant: 'default',
    n: 1,
    createdAt: 0,
    submittedBy: 'someone',
    spec: specOf({ type }, { ...SPEC }),
    payload: payloadText,
    payloadBytes: Buffer.byteLength(payloadText),
    modelRef: undefined,
    contextTokens: undefined,
    tokens: undefined,
    ancestors: undefined,
    hash,
    correlationId: undefined,
  };
  return { ...who, token, ask, payloadText, attempt: 1, registry };
}
