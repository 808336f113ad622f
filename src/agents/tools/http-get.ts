/**
 * Reads a page of the web for a model.
 *
 * G1  Only hosts and ports of the list are asked, by http or https, without credentials, body or headers of the model.
 * G2  The addresses of the host are checked when they are resolved for the connection, and the connection uses these
 *     addresses and no others (O1 of wire/outbound.ts): a name that leads into a private network, or that does so at the
 *     next lookup, is not asked.
 * G3  Redirects are told, not followed: the model may ask for the new address, which is checked like any other.
 * G4  The answer is text in UTF-8, and bounded; nothing after the bound is read.
 */
import { isIP } from 'node:net';
import type { Timers } from '../../kit/env/env.ts';
import { type Address, Outbound, type StreamReply, systemResolve } from '../../wire/outbound.ts';
import { type AllowedAddresses, type AllowedHost, AllowedHosts, normalized } from './allowed-hosts.ts';
import { isPublicAddress } from './public-address.ts';
import { decodedText, isTextType } from './text-body.ts';
import type { Tool, ToolContext } from './tool.ts';

export interface HttpGetOptions {
  readonly timers: Timers;
  readonly hosts: readonly AllowedHost[];
  /** Resolves a host name; the system's resolver by default. */
  readonly resolve?: (host: string) => Promise<readonly Address[]>;
}

const TIMEOUT_MS = 30_000;
const MAX_URL_CHARS = 2000;
const MAX_BODY_BYTES = 60 * 1024;
const HEADERS = { accept: 'text/*, application/json, application/xml', 'accept-encoding': 'identity' };

/** The result of the tool, as the model gets it. */
export interface HttpGetResult {
  readonly status: number;
  readonly content_type?: string;
  /** The URL that a redirect leads to. */
  readonly redirect_to?: string;
  readonly text?: string;
  /** Set if `text` is only the beginning of the answer. */
  readonly cut_after_bytes?: number;
}

/** The tool `http_get`; none if no host may be asked. */
export function httpGetTools(options: HttpGetOptions): readonly Tool[] {
  const hosts = new AllowedHosts(options.hosts);
  if (hosts.isEmpty) return [];
  const names = options.hosts.map(({ host }) => host).join(', ');
  const tool: Tool = {
    name: 'http_get',
    description: `Reads a text, JSON or XML document by HTTP GET. Redirects are not followed: the answer says where to. Allowed hosts: ${names.slice(0, 1000)}.`,
    parameters: {
      type: 'object',
      properties: { url: { type: 'string', maxLength: MAX_URL_CHARS, description: 'http:// or https://' } },
      required: ['url'],
      additionalProperties: false,
    },
    effect: 'pure',
    category: 'network',
    timeoutMs: TIMEOUT_MS,
    // JSON writes some characters of the body as two or six.
    maxOutputBytes: 2 * MAX_BODY_BYTES,
    run: ({ url }: { url: string }, { signal }: ToolContext) => get(allowedUrl(url, hosts), options, signal),
  };
  return [tool];
}

interface AllowedUrl {
  readonly url: URL;
  readonly addresses: AllowedAddresses;
}

/** Throws for a URL that may not be asked (G1). */
function allowedUrl(text: string, hosts: AllowedHosts): AllowedUrl {
  const url = URL.parse(text);
  if (!url || !/^https?:$/.test(url.protocol))
    throw new Error('"url" must be a whole URL that begins with http:// or https://');
  if (url.username !== '' || url.password !== '')
    throw new Error('"url" may not contain a user name or password');
  const host = normalized(url.hostname);
  const port = Number(url.port) || (url.protocol === 'https:' ? 443 : 80);
  const addresses = hosts.addressesOf(host, port);
  if (!addresses)
    throw new Error(`the host "${host.slice(0, 200)}" with port ${port} is not on the list of allowed hosts`);
  // An address in the URL is never resolved, so that G2 would not see it.
  if (isIP(host) > 0) checkAddresses(host, [host], addresses);
  return { url, addresses };
}

function checkAddresses(host: string, found: readonly string[], allowed: AllowedAddresses): void {
  if (allowed === 'public' && !found.every(isPublicAddress))
    throw new Error(`the host "${host}" has an address of a private network, which is not allowed`);
}

async function get(
  { url, addresses }: AllowedUrl,
  { timers, resolve = systemResolve }: HttpGetOptions,
  signal: AbortSignal,
): Promise<HttpGetResult> {
  let refusal: unknown;
  const outbound = new Outbound({
    timers,
    limits: { timeoutMs: TIMEOUT_MS, idleMs: TIMEOUT_MS },
    resolve: async (host) => {
      const found = await resolve(host);
      try {
        checkAddresses(
          host,
          found.map(({ address }) => address),
          addresses,
        );
      } catch (error) {
        refusal = error;
        throw error;
      }
      return found;
    },
  });
  try {
    const path = url.pathname + url.search;
    const request = { path, headers: HEADERS, signal, returnsRedirects: true };
    return await resultOf(await outbound.to(url.origin).stream(request), url);
  } catch (error) {
    // The outbound client says only that the name could not be resolved.
    throw refusal ?? error;
  } finally {
    // Nothing is kept: the next call resolves and checks the host again.
    outbound.close();
  }
}

async function resultOf(reply: StreamReply, url: URL): Promise<HttpGetResult> {
  const { status, headers } = reply;
  const location = headers.location;
  if (status >= 300 && status < 400 && location !== undefined)
    return { status, redirect_to: redirectTarget(location, url) };
  const type = headers['content-type'];
  const { bytes, isCut } = await beginningOf(reply);
  if (bytes.length === 0) return { status };
  if (!isTextType(type))
    throw new Error(
      `it answered ${status} with ${(type ?? 'no content type').slice(0, 100)}, which is no text in UTF-8`,
    );
  if (headers['content-encoding'] !== undefined && headers['content-encoding'] !== 'identity')
    throw new Error(`it answered ${status} with a compressed text, which was not asked for`);
  const text = decodedText(bytes, isCut);
  if (text === undefined) throw new Error(`it answered ${status} with a text that is not in UTF-8`);
  return {
    status,
    content_type: (type ?? '').slice(0, 100),
    text,
    ...(isCut && { cut_after_bytes: bytes.length }),
  };
}

/** Without user name and password, which must not get into a conversation. */
function redirectTarget(location: string, from: URL): string {
  const target = URL.parse(location, from);
  if (!target) return 'an address that is not valid';
  target.username = '';
  target.password = '';
  return target.href.slice(0, MAX_URL_CHARS);
}

async function beginningOf(reply: StreamReply): Promise<{ readonly bytes: Buffer; readonly isCut: boolean }> {
  const pieces: Buffer[] = [];
  let size = 0;
  const read = reply.read((piece) => {
    pieces.push(piece);
    size += piece.length;
    // Closing the connection is what keeps an endless answer from being read on.
    if (size > MAX_BODY_BYTES) reply.close();
  });
  await read.catch((error: unknown) => {
    if (size <= MAX_BODY_BYTES) throw error;
  });
  return { bytes: Buffer.concat(pieces).subarray(0, MAX_BODY_BYTES), isCut: size > MAX_BODY_BYTES };
}
