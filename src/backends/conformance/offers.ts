/** The only place of the suite that knows what an offer is made of. */
import type { Commander, Offer } from '../../core/ports.ts';
import { type AskRecord, jobOfToken } from '../../model/records.ts';

export interface OfferedWork {
  readonly type: string;
  readonly payloadText: string;
  /** The executor's memory that the offer counts on. */
  readonly registry: string | undefined;
}

export function offerOf(who: Commander, token: string, work: OfferedWork): Offer {
  const { type, payloadText, registry } = work;
  const ask: AskRecord = {
    v: 1,
    id: jobOfToken(token),
    tenant: 'default',
    n: 1,
    createdAt: 0,
    principal: 'someone',
    submittedBy: 'someone',
    type,
    class: 'batch',
    score: 0,
    weight: 1,
    maxTries: 3,
    payload: payloadText,
    payloadBytes: Buffer.byteLength(payloadText),
    key: undefined,
    kind: undefined,
    model: undefined,
    modelRef: undefined,
    contextTokens: undefined,
    tokens: undefined,
    region: undefined,
    labels: undefined,
    session: undefined,
    parallel: undefined,
    notBefore: undefined,
    deadlineAt: undefined,
    timeoutMs: undefined,
    parent: undefined,
    ancestors: undefined,
    onUnknown: undefined,
    afterOutput: undefined,
    onDisconnect: undefined,
    hash: undefined,
    correlationId: undefined,
  };
  const { owner, epoch } = who;
  return { owner, epoch, token, ask, payloadText, attempt: 1, registry };
}
