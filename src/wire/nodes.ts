/**
 * How the nodes of a cluster authenticate to each other: by a secret stored in their common database. The node that
 * received the request has authenticated the caller, and forwards the caller's identity in a header.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import { OrchdError } from '../model/errors.ts';
import { type Identity, ROLES, type Role } from './tokens.ts';

export const NODE_SCHEME = 'Node ';
export const ON_BEHALF_OF = 'x-orchd-on-behalf-of';

/** The headers of a request that one node forwards to another. */
export const nodeHeaders = (
  secret: string,
  { name, role, tenant, tokenId, models, unproven }: Identity,
): Record<string, string> => ({
  authorization: `${NODE_SCHEME}${secret}`,
  // Encoded because names may contain characters that a header cannot.
  [ON_BEHALF_OF]: Buffer.from(JSON.stringify({ name, role, tenant, tokenId, models, unproven })).toString(
    'base64url',
  ),
});

const digest = (text: string): Buffer => createHash('sha256').update(text).digest();

export function isNode(authorization: string, secret: string): boolean {
  if (secret === '' || !authorization.startsWith(NODE_SCHEME)) return false;
  return timingSafeEqual(digest(authorization.slice(NODE_SCHEME.length)), digest(secret));
}

export function identityFromNode(
  authorization: string,
  onBehalfOf: string | undefined,
  secret: string,
): Identity {
  if (!isNode(authorization, secret)) throw new OrchdError('UNAUTHORIZED');
  const identity = parse(onBehalfOf ?? '');
  if (!identity) throw new OrchdError('UNAUTHORIZED', 'the forwarding node did not name the caller');
  return { ...identity, fromNode: true };
}

function parse(text: string): Identity | undefined {
  try {
    const identity = JSON.parse(Buffer.from(text, 'base64url').toString()) as Identity;
    const { name, role, tenant, tokenId, models, unproven } = identity;
    const isValid = typeof name === 'string' && typeof tenant === 'string' && ROLES.includes(role as Role);
    if (!isValid || !isModelList(models)) return undefined;
    if (unproven) return { name, role, tenant, unproven: true };
    return {
      name,
      role,
      tenant,
      ...(typeof tokenId === 'string' && { tokenId }),
      ...(models && { models }),
    };
  } catch {
    return undefined;
  }
}

const isModelList = (models: unknown): boolean =>
  models === undefined || (Array.isArray(models) && models.every((each) => typeof each === 'string'));
