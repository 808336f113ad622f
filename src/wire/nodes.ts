/**
 * How the nodes of a cluster know each other: by a secret that lies in their database. A node has let the caller in
 * by its own tokens, and says whom it asks for.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import { OrchdError } from '../model/errors.ts';
import { type Identity, ROLES, type Role } from './tokens.ts';

export const NODE_SCHEME = 'Node ';
export const ON_BEHALF_OF = 'x-orchd-on-behalf-of';

/** The headers of a request that one node sends to another. */
export const nodeHeaders = (secret: string, { name, role, tenant }: Identity): Record<string, string> => ({
  authorization: `${NODE_SCHEME}${secret}`,
  // Names may hold any character.
  [ON_BEHALF_OF]: Buffer.from(JSON.stringify({ name, role, tenant })).toString('base64url'),
});

const digest = (text: string): Buffer => createHash('sha256').update(text).digest();

export function identityFromNode(
  authorization: string,
  onBehalfOf: string | undefined,
  secret: string,
): Identity {
  const given = digest(authorization.slice(NODE_SCHEME.length));
  if (secret === '' || !timingSafeEqual(given, digest(secret))) throw new OrchdError('UNAUTHORIZED');
  const identity = parse(onBehalfOf ?? '');
  if (!identity) throw new OrchdError('UNAUTHORIZED', 'a node did not say whom it asks for');
  return { ...identity, fromNode: true };
}

function parse(text: string): Identity | undefined {
  try {
    const { name, role, tenant } = JSON.parse(Buffer.from(text, 'base64url').toString()) as Identity;
    const isGood = typeof name === 'string' && typeof tenant === 'string' && ROLES.includes(role as Role);
    return isGood ? { name, role, tenant } : undefined;
  } catch {
    return undefined;
  }
}
