/**
 * Who may come in. Loopback is not trust: a page in a browser reaches it too, so Host and Origin are checked
 * before anything else. Any doubt ends in a refusal; there is no identity to fall back to.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { Secret } from '../kit/secret.ts';
import { OrchdError } from '../model/errors.ts';
import { DEFAULT_TENANT } from '../model/records.ts';
import { identityFromNode, isNode, NODE_SCHEME } from './nodes.ts';
import { grants, type Identity, identify, type Role, type TokenEntry } from './tokens.ts';

export interface GateOptions {
  /** Names under which this server may be addressed, without port. */
  readonly hosts: readonly string[];
  readonly origins: readonly string[];
  readonly tokens: () => readonly TokenEntry[];
  /** Without any token a caller on this machine may do everything. */
  readonly openWithoutTokens: boolean;
  /** Of a server with one caller: whoever shows this may do everything. */
  readonly secret?: Secret;
  /** By which the other nodes of a cluster are known; empty where there are none. */
  readonly nodeSecret?: () => string;
}

export interface Credentials {
  readonly host: string | undefined;
  readonly origin: string | undefined;
  readonly authorization: string | undefined;
  /** Whom another node asks for. */
  readonly onBehalfOf?: string | undefined;
}

export const LOOPBACK_HOSTS = ['localhost', '127.0.0.1', '[::1]'] as const;

const LOCAL: Identity = { name: 'local', role: 'admin', tenant: DEFAULT_TENANT, unproven: true };
const HOLDER: Identity = { name: 'holder', role: 'admin', tenant: DEFAULT_TENANT };
const NOBODY: Identity = { name: 'anonymous', role: 'read', tenant: DEFAULT_TENANT };

/** Of the same length whatever it is of, so that comparing takes the same time. */
const hashOf = (text: string): Buffer => createHash('sha256').update(text).digest();

export class Gate {
  readonly #options: GateOptions;
  /** The last one that was found good: nearly all callers say the same. */
  #lastHost: string | undefined;

  constructor(options: GateOptions) {
    this.#options = options;
  }

  admit(credentials: Credentials, wanted: Role | 'public'): Identity {
    this.#checkHost(credentials.host);
    this.#checkOrigin(credentials.origin, credentials.host);
    if (wanted === 'public') return this.#isNode(credentials) ? { ...NOBODY, fromNode: true } : NOBODY;
    const identity = this.#identify(credentials);
    if (!grants(identity.role, wanted)) {
      throw new OrchdError('FORBIDDEN', `this needs the role "${wanted}"; the token has "${identity.role}"`);
    }
    return identity;
  }

  #isNode({ authorization }: Credentials): boolean {
    return isNode(authorization ?? '', this.#options.nodeSecret?.() ?? '');
  }

  #identify({ authorization, onBehalfOf }: Credentials): Identity {
    if (authorization?.startsWith(NODE_SCHEME)) {
      const identity = identityFromNode(authorization, onBehalfOf, this.#options.nodeSecret?.() ?? '');
      if (!identity.unproven || this.#isOpen()) return identity;
      throw new OrchdError('UNAUTHORIZED', 'the node that was asked has no tokens; this one has');
    }
    const tokens = this.#options.tokens();
    if (this.#isOpen() && !claimsToken(authorization)) return LOCAL;
    const token = /^Bearer ([!-~]{1,200})$/i.exec(authorization ?? '')?.[1];
    if (token !== undefined && this.#isSecret(token)) return HOLDER;
    const identity = token === undefined ? undefined : identify(token, tokens);
    if (!identity) throw new OrchdError('UNAUTHORIZED');
    return identity;
  }

  #isSecret(token: string): boolean {
    const { secret } = this.#options;
    return secret !== undefined && timingSafeEqual(hashOf(token), hashOf(secret.reveal()));
  }

  #isOpen(): boolean {
    return this.#options.openWithoutTokens && this.#options.tokens().length === 0;
  }

  #checkHost(host: string | undefined): void {
    if (host !== undefined && host === this.#lastHost) return;
    const name = host === undefined ? undefined : hostName(host);
    if (name !== undefined && this.#options.hosts.includes(name)) {
      this.#lastHost = host;
      return;
    }
    throw new OrchdError('FORBIDDEN', 'the Host header does not name this server');
  }

  #checkOrigin(origin: string | undefined, host: string | undefined): void {
    if (origin === undefined || this.#options.origins.includes(origin)) return;
    if (origin === `http://${host}` || origin === `https://${host}`) return;
    throw new OrchdError('FORBIDDEN', 'pages of other origins may not call this server');
  }
}

/**
 * Clients of other services cannot be made to send no key. Where there are no tokens it is as good as none; one of
 * ours says that its caller counts on being known.
 */
const claimsToken = (authorization: string | undefined): boolean =>
  authorization !== undefined && !/^Bearer (?!orchd_)[!-~]{1,200}$/i.test(authorization);

/** `host[:port]` without its port, in small letters; undefined where it is neither a name nor an address. */
function hostName(host: string): string | undefined {
  const match = /^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?$/i.exec(host);
  return match?.[1]?.toLowerCase();
}
