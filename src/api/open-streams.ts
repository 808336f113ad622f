/**
 * Counts the open streams of each caller and of each tenant, over all routes that stream, and refuses more than the
 * limits. The default tenant, the operator's, has no limit of its own.
 */
import { OrchdError } from '../model/errors.ts';
import { type Identity, isOperator } from '../wire/tokens.ts';

const RETRY_AFTER_MS = 1000;

export class OpenStreams {
  readonly #maxPerCaller: number;
  readonly #maxPerTenant: number;
  /** By caller, and by tenant. */
  readonly #open = new Map<string, number>();

  constructor(maxPerCaller: number, maxPerTenant: number) {
    this.#maxPerCaller = maxPerCaller;
    this.#maxPerTenant = maxPerTenant;
  }

  /** Counts one more stream, or throws. The returned function releases it; calling that twice releases it once. */
  take(identity: Identity): () => void {
    const { tenant, name } = identity;
    const caller = `${tenant}~${name}`;
    if (this.#count(caller) >= this.#maxPerCaller) throw tooMany(undefined);
    if (!isOperator(identity) && this.#count(tenant) >= this.#maxPerTenant) throw tooMany('tenant_share');
    const counted = [caller, tenant];
    for (const key of counted) this.#open.set(key, this.#count(key) + 1);
    let isOpen = true;
    return () => {
      if (isOpen) for (const key of counted) this.#release(key);
      isOpen = false;
    };
  }

  #count(key: string): number {
    return this.#open.get(key) ?? 0;
  }

  #release(key: string): void {
    const left = this.#count(key) - 1;
    if (left === 0) this.#open.delete(key);
    else this.#open.set(key, left);
  }
}

const tooMany = (reason: 'tenant_share' | undefined): OrchdError =>
  new OrchdError('TOO_MANY_STREAMS', undefined, {
    retryAfterMs: RETRY_AFTER_MS,
    policyLabel: 'streams',
    ...(reason && { reason }),
  });
