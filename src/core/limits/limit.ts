/** Limits: the names of scopes, their patterns, and the lookup of the limit that applies to a scope. */
import { OrchdError } from '../../model/errors.ts';
import type { LimitSpec } from '../../model/records.ts';

export type Limit = LimitSpec;

/** Builds the name of each kind of scope. */
export const scopes = {
  global: 'global',
  tenant: (tenant: string) => `tenant:${tenant}`,
  agent: (tenant: string, principal: string) => `agent:${tenant}/${principal}`,
  token: (name: string) => `token:${name}`,
  session: (tenant: string, id: string) => `session:${tenant}/${id}`,
  model: (name: string) => `model:${name}`,
  pool: (name: string) => `pool:${name}`,
} as const;

const SCOPE = /^(?:global|(?:tenant|token|model|pool):.+|(?:agent|session):(?:\*|[^/]+\/.+))$/s;
const NUMBERS = [
  'requestsPerSec',
  'tokensPerSec',
  'burstRequests',
  'burstTokens',
  'concurrency',
  'tokenBudget',
] as const;

/** The limits in force, looked up by scope. */
export class LimitTable {
  readonly #limits = new Map<string, Limit>();

  /** Throws if a limit is invalid. */
  constructor(limits: readonly Limit[]) {
    for (const limit of limits) {
      check(limit);
      if (this.#limits.has(limit.scope)) throw refuse(`the scope "${limit.scope}" is limited twice`, 'scope');
      this.#limits.set(limit.scope, limit);
    }
  }

  /** The most specific limit: of the scope itself, else of `kind:tenant/*`, else of `kind:*`. */
  find(scope: string): Limit | undefined {
    if (this.#limits.size === 0) return undefined;
    const exact = this.#limits.get(scope);
    if (exact) return exact;
    const colon = scope.indexOf(':');
    if (colon < 0) return undefined;
    const slash = scope.startsWith('agent:') || scope.startsWith('session:') ? scope.indexOf('/', colon) : -1;
    const ofTenant = slash < 0 ? undefined : this.#limits.get(`${scope.slice(0, slash)}/*`);
    return ofTenant ?? this.#limits.get(`${scope.slice(0, colon)}:*`);
  }

  has(scope: string): boolean {
    return this.#limits.has(scope);
  }
}

function check(limit: Limit): void {
  if (!SCOPE.test(limit.scope)) throw refuse(`"${limit.scope}" is not the name of a scope`, 'scope');
  for (const name of NUMBERS) {
    const value = limit[name];
    if (value === undefined || (Number.isFinite(value) && value >= 0)) continue;
    throw refuse(`${name} of "${limit.scope}" is not a number from 0 up`, name);
  }
}

const refuse = (message: string, field: string): OrchdError =>
  new OrchdError('INVALID_PARAMS', message, { field });
