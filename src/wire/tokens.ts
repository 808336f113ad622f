/**
 * Bearer tokens: `orchd_<id>_<secret>` with a secret of 256 random bits, of which only the hash is stored. The id
 * selects the entry; the hashes are compared in constant time.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { Random } from '../kit/env/env.ts';
import type { LimitWindow } from '../model/limit-records.ts';
import { DEFAULT_TENANT } from '../model/records.ts';

/**
 * Each role includes those before it, except `pool`, for pool managers, which can only register a pool, and `consumer`, for
 * consumers and what starts them, which can only take jobs, read how many workers are wished, and report about both.
 */
export const ROLES = ['read', 'submit', 'operate', 'admin', 'pool', 'consumer'] as const;
export type Role = (typeof ROLES)[number];

/** The roles that each role includes. */
const GRANTS: Record<Role, readonly Role[]> = {
  pool: ['pool'],
  consumer: ['consumer'],
  read: ['read'],
  submit: ['submit', 'read'],
  operate: ['operate', 'submit', 'read', 'pool', 'consumer'],
  admin: ['admin', 'operate', 'submit', 'read', 'pool', 'consumer'],
};

export const grants = (role: Role, required: Role): boolean => GRANTS[role].includes(required);

/** What a token may use beside its role: such a token is a virtual key. */
export interface TokenGrant {
  /** Names of models, or their beginnings with `*` at the end; undefined: every model, and jobs without one. */
  readonly models?: readonly string[];
  /** Maximum cost in a window, in millionths of the currency. */
  readonly cost_budget?: number;
  readonly window?: LimitWindow;
  readonly time_zone?: string;
  readonly hard?: boolean;
}

export interface TokenEntry extends TokenGrant {
  readonly id: string;
  readonly name: string;
  readonly role: Role;
  readonly tenant: string;
  /** SHA-256 of the secret, hexadecimal. */
  readonly hash: string;
  readonly created_at: number;
}

export interface Identity {
  readonly name: string;
  readonly role: Role;
  readonly tenant: string;
  /** The id of the token that the caller has shown; undefined if it was accepted without one. */
  readonly tokenId?: string;
  /** The models that it may use; undefined: all of them. */
  readonly models?: readonly string[];
  /** The caller was accepted without a token, because there are none. */
  readonly unproven?: true;
  /** Another node forwarded the request and waits for the answer: it must not be forwarded again. */
  readonly fromNode?: true;
}

/**
 * Whether a caller may use routes with the scope `global`: the default tenant is the operator's (docs/decisions/0021).
 */
export const isOperator = ({ tenant }: Pick<Identity, 'tenant'>): boolean => tenant === DEFAULT_TENANT;

const hashOf = (secret: string): Buffer => createHash('sha256').update(secret).digest();

export function makeToken(
  random: Random,
  now: number,
  name: string,
  role: Role,
  tenant = DEFAULT_TENANT,
  grant: TokenGrant = {},
): { readonly token: string; readonly entry: TokenEntry } {
  const id = random.hex(4);
  const secret = random.hex(32);
  const hash = hashOf(secret).toString('hex');
  const entry = { id, name, role, tenant, hash, created_at: now, ...grant };
  return { token: `orchd_${id}_${secret}`, entry };
}

const FORM = /^orchd_([0-9a-f]{8})_([0-9a-f]{64})$/;

/** The entry for a token that was made elsewhere; undefined if it does not have the form of a token. */
export function tokenEntryOf(token: string, name: string, role: Role): TokenEntry | undefined {
  const [, id, secret] = FORM.exec(token) ?? [];
  if (id === undefined || secret === undefined) return undefined;
  return { id, name, role, tenant: DEFAULT_TENANT, hash: hashOf(secret).toString('hex'), created_at: 0 };
}

const NO_HASH = Buffer.alloc(32);

/** The identity that a token belongs to; undefined unless it is exactly a known token. */
export function identify(token: string, entries: readonly TokenEntry[]): Identity | undefined {
  const match = FORM.exec(token);
  const entry = match ? entries.find(({ id }) => id === match[1]) : undefined;
  const expected = entry ? Buffer.from(entry.hash, 'hex') : NO_HASH;
  const given = hashOf(match?.[2] ?? '');
  const same = expected.length === given.length && timingSafeEqual(expected, given);
  if (!entry || !same) return undefined;
  const { name, role, tenant, models } = entry;
  return { name, role, tenant, tokenId: entry.id, ...(models && { models }) };
}

/** Whether the token of a caller is no longer what it was when the caller was accepted. */
export function isRevoked(identity: Identity, entries: readonly TokenEntry[]): boolean {
  const { tokenId, name, role, tenant, fromNode } = identity;
  // A node without tokens accepts callers whose tokens only the forwarding node knows.
  if (tokenId === undefined || (fromNode && entries.length === 0)) return false;
  const entry = entries.find(({ id }) => id === tokenId);
  if (entry?.name !== name || entry.role !== role || entry.tenant !== tenant) return true;
  return isNarrower(entry.models, identity.models);
}

/** Whether a list of models has lost an entry. */
const isNarrower = (now: readonly string[] | undefined, before: readonly string[] | undefined): boolean =>
  now !== undefined && !before?.every((each) => now.includes(each));
