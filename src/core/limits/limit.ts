/** Limits: the names of scopes, their patterns, and the lookup of the limit that applies to a scope. */
import { isTimeZone } from '../../kit/window.ts';
import { OrchdError } from '../../model/errors.ts';
import type { LimitSpec } from '../../model/limit-records.ts';
import { DEFAULT_TENANT } from '../../model/records.ts';

export type Limit = LimitSpec;

/** Builds the name of each kind of scope. */
export const scopes = {
  global: 'global',
  tenant: (tenant: string) => `tenant:${tenant}`,
  agent: (tenant: string, principal: string) => `agent:${tenant}/${principal}`,
  /** The name alone for a token of the default tenant; one with a slash would read as the token of another tenant. */
  token: (tenant: string, name: string) =>
    tenant === DEFAULT_TENANT && !name.includes('/') ? `token:${name}` : `token:${tenant}/${name}`,
  /** A token as a virtual key: the budget that its entry in the token file has, beside any limit of the token. */
  key: (tenant: string, name: string) => `key${scopes.token(tenant, name).slice('token'.length)}`,
  session: (tenant: string, id: string) => `session:${tenant}/${id}`,
  model: (name: string) => `model:${name}`,
  pool: (name: string) => `pool:${name}`,
  seat: (backend: string) => `seat:${backend}`,
  route: (name: string) => `route:${name}`,
  /** The jobs of a kind, limited by the mode of governance. */
  mode: (kind: string) => `mode:${kind}`,
  /** A job and all below it. */
  root: (tenant: string, job: string) => `root:${tenant}/${job}`,
} as const;

/**
 * The prefix of scopes whose limit a tenant has set for itself. They are counted apart from the same scopes without the
 * prefix, which the operator limits, so that both limits hold.
 */
const OWN = 'own-';

export const ownScope = (scope: string): string => OWN + scope;

/** The scope as people write it, without the prefix of a tenant's own limits. */
export const writtenScope = (scope: string): string =>
  scope.startsWith(OWN) ? scope.slice(OWN.length) : scope;

/** Whether a scope is that of a virtual key, whose limit is written in the token file alone. */
export const isKeyScope = (scope: string): boolean => scope.startsWith('key:');

/** Whether a scope is one that the mode of governance limits, and nobody else. */
export const isModeScope = (scope: string): boolean => scope.startsWith('mode:');

/** Whether a scope is a part of the tenant, so that the tenant's own admin may limit it. */
export const isScopeOf = (scope: string, tenant: string): boolean =>
  scope === scopes.tenant(tenant) ||
  ['agent', 'session', 'token', 'key', 'root'].some((kind) => scope.startsWith(`${kind}:${tenant}/`));

/** Whether callers of the tenant are told how much of a scope is used: others' use is not for their eyes. */
export const maySee = (scope: string, tenant: string): boolean =>
  tenant === DEFAULT_TENANT || isScopeOf(scope, tenant);

const SCOPE =
  /^(?:own-)?(?:global|(?:tenant|token|key|model|pool|seat|route|mode):.+|(?:agent|session|root):(?:\*|[^/]+\/.+))$/s;
/** The kinds of scopes whose names begin with a tenant. */
const HAS_TENANT = /^(?:own-)?(?:agent|session|token|root):/;
const NUMBERS = [
  'requestsPerSec',
  'tokensPerSec',
  'burstRequests',
  'burstTokens',
  'concurrency',
  'tokenBudget',
  'running',
  'perMinute',
  'costBudget',
] as const;

/** The kinds of scopes that only limit starts. */
const STARTS_ONLY: ReadonlySet<string> = new Set(['pool', 'seat', 'route', 'root', 'own-root', 'mode']);

export function kindOf(scope: string): string {
  const colon = scope.indexOf(':');
  return colon < 0 ? scope : scope.slice(0, colon);
}

/** Whether a limit is about starts: it makes jobs wait, and refuses none that could run later. */
export const isStartLimit = ({ running, perMinute, costBudget }: Limit): boolean =>
  running !== undefined || perMinute !== undefined || costBudget !== undefined;

/** Whether a limit is about submits: jobs over it are refused. */
export const isSubmitLimit = (limit: Limit): boolean =>
  limit.requestsPerSec !== undefined ||
  limit.tokensPerSec !== undefined ||
  limit.concurrency !== undefined ||
  limit.tokenBudget !== undefined;

/** The pattern for all scopes of the same kind and tenant; undefined if the name of the scope has no tenant. */
export function patternOf(scope: string): string | undefined {
  const slash = HAS_TENANT.test(scope) ? scope.indexOf('/') : -1;
  return slash < 0 ? undefined : `${scope.slice(0, slash)}/*`;
}

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

  /**
   * The most specific limit: of the scope itself, else of `kind:tenant/*`, else of `kind:*`. The limit `token:NAME` also
   * applies to the tokens of that name in other tenants, to each for itself.
   */
  find(scope: string): Limit | undefined {
    if (this.#limits.size === 0) return undefined;
    const exact = this.#limits.get(scope);
    if (exact) return exact;
    const colon = scope.indexOf(':');
    if (colon < 0) return undefined;
    const kind = scope.slice(0, colon);
    const pattern = patternOf(scope);
    const ofTenant = pattern === undefined ? undefined : this.#limits.get(pattern);
    const ofName =
      pattern === undefined || kind !== 'token'
        ? undefined
        : this.#limits.get(`token:${scope.slice(scope.indexOf('/') + 1)}`);
    return ofTenant ?? ofName ?? this.#limits.get(`${kind}:*`);
  }

  has(scope: string): boolean {
    return this.#limits.has(scope);
  }

  values(): IterableIterator<Limit> {
    return this.#limits.values();
  }
}

function check(limit: Limit): void {
  if (!SCOPE.test(limit.scope)) throw refuse(`"${limit.scope}" is not the name of a scope`, 'scope');
  for (const name of NUMBERS) {
    const value = limit[name];
    if (value === undefined || (Number.isFinite(value) && value >= 0)) continue;
    throw refuse(`${name} of "${limit.scope}" is not a number from 0 up`, name);
  }
  checkKind(limit);
  checkBudget(limit);
}

/** Refuses limits that nothing would hold: the scopes of starts count no submits, and attempts are not counted by pool. */
function checkKind(limit: Limit): void {
  const kind = kindOf(limit.scope);
  if (STARTS_ONLY.has(kind) && isSubmitLimit(limit))
    throw refuse(`"${limit.scope}" can be limited by running and cost_budget only`, 'scope');
  if (kind === 'pool' && limit.costBudget !== undefined)
    throw refuse(`"${limit.scope}" can be limited by running only`, 'cost_budget');
}

function checkBudget({ scope, tokenBudget, costBudget, window, timeZone, hard }: Limit): void {
  if (costBudget !== undefined && !Number.isSafeInteger(costBudget))
    throw refuse(`cost_budget of "${scope}" is not a whole number`, 'cost_budget');
  if (hard !== undefined && costBudget === undefined)
    throw refuse(`"${scope}" is hard without a cost_budget`, 'hard');
  if (window !== undefined && tokenBudget === undefined && costBudget === undefined)
    throw refuse(`"${scope}" has a window without a budget`, 'window');
  if (timeZone === undefined) return;
  if (window === undefined || window === 'total')
    throw refuse(`"${scope}" has a time zone without a window`, 'time_zone');
  if (!isTimeZone(timeZone)) throw refuse(`"${timeZone}" is not a time zone`, 'time_zone');
}

const refuse = (message: string, field: string): OrchdError =>
  new OrchdError('INVALID_PARAMS', message, { field });
