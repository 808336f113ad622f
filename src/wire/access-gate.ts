/**
 * Decides which callers a server accepts, and with which role. A request from loopback is not trusted for that alone:
 * a web page in a browser on the same machine can send one too, so Host and Origin are checked before anything else.
 * A request that fails a check is refused; it is never downgraded to LOCAL or ANONYMOUS.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import type { Secret } from '../kit/secret.ts';
import { OrchdError } from '../model/errors.ts';
import { DEFAULT_TENANT } from '../model/records.ts';
import { identityFromNode, isNode, NODE_SCHEME, ON_BEHALF_OF } from './nodes.ts';
import type { Route } from './route.ts';
import { grants, type Identity, identify, isOperator, type TokenEntry } from './tokens.ts';

export interface AccessGateOptions {
  /** Host names under which clients may address this server, without port. */
  readonly allowedHosts: readonly string[];
  readonly allowedOrigins: readonly string[];
  /** The setting that lists more hosts, to be named to a caller with another one. */
  readonly hostSetting?: string;
  readonly tokens: () => readonly TokenEntry[];
  /**
   * While there are no tokens at all, every caller is accepted as an admin. Only for servers that listen on loopback.
   */
  readonly openWithoutTokens: boolean;
  /** A caller that presents this secret as its bearer token is accepted as an admin. */
  readonly adminSecret?: Secret;
  /** The secret by which the nodes of a cluster recognise each other; empty if there is none. */
  readonly clusterSecret?: () => string;
}

export interface Credentials {
  readonly host: string | undefined;
  readonly origin: string | undefined;
  readonly authorization: string | undefined;
  /** The identity of the caller for which another node forwards the request, as `nodeHeaders` encoded it. */
  readonly onBehalfOf?: string | undefined;
  /** The header Sec-Fetch-Site: which page made a browser send the request. Other clients do not send it. */
  readonly fetchSite?: string | undefined;
}

export const LOOPBACK_HOSTS = ['localhost', '127.0.0.1', '[::1]'] as const;

/** Any caller, while there are no tokens and `openWithoutTokens` is set. */
const LOCAL: Identity = { name: 'local', role: 'admin', tenant: DEFAULT_TENANT, unproven: true };
/** A caller that has presented `adminSecret`. */
const SECRET_HOLDER: Identity = { name: 'admin-secret', role: 'admin', tenant: DEFAULT_TENANT };
/** Every caller of a public route; tokens are not read there. */
const ANONYMOUS: Identity = { name: 'anonymous', role: 'read', tenant: DEFAULT_TENANT };

/** Hashed because timingSafeEqual compares only buffers of equal length. */
const hashOf = (text: string): Buffer => createHash('sha256').update(text).digest();

export class AccessGate {
  readonly #options: AccessGateOptions;
  /** The last accepted Host header: nearly all requests carry the same one, so it is parsed only once. */
  #lastHost: string | undefined;

  constructor(options: AccessGateOptions) {
    this.#options = options;
  }

  admit(credentials: Credentials, route: Pick<Route, 'role' | 'scope' | 'answersAnyHost'>): Identity {
    if (!route.answersAnyHost) this.#checkHost(credentials.host);
    this.#checkOrigin(credentials.origin, credentials.host);
    if (route.role === 'public')
      return this.#isNode(credentials) ? { ...ANONYMOUS, fromNode: true } : ANONYMOUS;
    checkFetchSite(credentials);
    const identity = this.#identify(credentials);
    const refusal = roleRefusal(identity, route);
    if (refusal) throw refusal;
    return identity;
  }

  #isNode({ authorization }: Credentials): boolean {
    return isNode(authorization ?? '', this.#options.clusterSecret?.() ?? '');
  }

  #identify({ authorization, onBehalfOf }: Credentials): Identity {
    if (authorization?.startsWith(NODE_SCHEME)) {
      const secret = this.#options.clusterSecret?.();
      // A node that has just started accepts connections before it has read the secret: the other node asks again.
      if (secret === '') throw new OrchdError('NO_LEADER', 'this node is starting');
      const identity = identityFromNode(authorization, onBehalfOf, secret ?? '');
      // `unproven`: the forwarding node accepted the caller without a token, which this node must allow too.
      if (!identity.unproven || this.#acceptsWithoutToken()) return identity;
      throw new OrchdError('UNAUTHORIZED', 'the forwarding node has no tokens configured, but this node has');
    }
    const tokens = this.#options.tokens();
    if (this.#acceptsWithoutToken() && !claimsToken(authorization)) return LOCAL;
    const token = /^Bearer ([!-~]{1,200})$/i.exec(authorization ?? '')?.[1];
    if (token !== undefined && this.#isAdminSecret(token)) return SECRET_HOLDER;
    const identity = token === undefined ? undefined : identify(token, tokens);
    if (!identity) throw new OrchdError('UNAUTHORIZED');
    return identity;
  }

  #isAdminSecret(token: string): boolean {
    const { adminSecret } = this.#options;
    return adminSecret !== undefined && timingSafeEqual(hashOf(token), hashOf(adminSecret.reveal()));
  }

  #acceptsWithoutToken(): boolean {
    return this.#options.openWithoutTokens && this.#options.tokens().length === 0;
  }

  #checkHost(host: string | undefined): void {
    if (host !== undefined && host === this.#lastHost) return;
    const name = host === undefined ? undefined : hostName(host);
    if (name !== undefined && (isAddress(name) || this.#options.allowedHosts.includes(name))) {
      this.#lastHost = host;
      return;
    }
    const { hostSetting } = this.#options;
    const hint = hostSetting === undefined ? '' : `; list its name in ${hostSetting}`;
    throw new OrchdError('FORBIDDEN', `the Host header does not name this server${hint}`);
  }

  #checkOrigin(origin: string | undefined, host: string | undefined): void {
    if (origin === undefined || this.#options.allowedOrigins.includes(origin)) return;
    if (origin === `http://${host}` || origin === `https://${host}`) return;
    throw new OrchdError('FORBIDDEN', 'pages of other origins may not call this server');
  }
}

/** Why a caller may not use a route: its role, or for what all tenants share its tenant; undefined if it may. */
export function roleRefusal(
  identity: Identity,
  { role: required, scope }: Pick<Route, 'role' | 'scope'>,
): OrchdError | undefined {
  if (required !== 'public' && !grants(identity.role, required)) {
    return new OrchdError('FORBIDDEN', `this needs the role "${required}"; the token has "${identity.role}"`);
  }
  if (scope !== 'global' || isOperator(identity)) return undefined;
  return new OrchdError(
    'FORBIDDEN',
    `this concerns all tenants and needs a token of the tenant "${DEFAULT_TENANT}"; the token is of "${identity.tenant}"`,
    { reason: 'global_scope' },
  );
}

/**
 * Refuses what a page of another site or origin makes a browser send without an Origin, such as an image or a link. Even
 * a read has effects: an interactive job is cancelled when its last follower leaves. A request with an Origin was
 * checked by it; public routes are exempt, so that a link leads to them from anywhere.
 */
function checkFetchSite({ fetchSite, origin }: Credentials): void {
  if (origin !== undefined || fetchSite === undefined || ['same-origin', 'none'].includes(fetchSite)) return;
  throw new OrchdError('FORBIDDEN', 'pages of other sites may not call this server');
}

/**
 * Whether the caller presents a token of ours. OpenAI clients always send an API key. While no tokens exist, a key without
 * our prefix `orchd_` is ignored. A key with the prefix, or any other scheme, is checked and refused: its caller expects
 * to be identified.
 */
const claimsToken = (authorization: string | undefined): boolean =>
  authorization !== undefined && !/^Bearer (?!orchd_)[!-~]{1,200}$/i.test(authorization);

/** The host name of `host[:port]` in lower case; undefined if it is neither a name nor an address. */
/** A page can make a name of its own mean this machine, but not an address: a caller with an address means this server. */
const isAddress = (name: string): boolean => isIP(name.replace(/^\[(.*)\]$/, '$1')) > 0;

function hostName(host: string): string | undefined {
  const match = /^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?$/i.exec(host);
  return match?.[1]?.toLowerCase();
}

/** The headers of a request that the gate decides by. */
export function credentialsOf({ headers }: IncomingMessage): Credentials {
  const { host, origin, authorization } = headers;
  const onBehalfOf = headers[ON_BEHALF_OF];
  const fetchSite = headers['sec-fetch-site'];
  return {
    host,
    origin,
    authorization,
    onBehalfOf: typeof onBehalfOf === 'string' ? onBehalfOf : undefined,
    fetchSite: typeof fetchSite === 'string' ? fetchSite : undefined,
  };
}
