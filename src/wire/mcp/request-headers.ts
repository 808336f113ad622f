/**
 * Compares the headers of an HTTP request with the message in its body. Proxies route and filter by these headers, so
 * that a request whose headers say something else than its body must not be served.
 */
import { MCP_METHOD, MCP_NAME, MCP_PROTOCOL_VERSION } from '../headers.ts';
import { type ClientMessage, type McpRequest, unsupportedVersion } from './message.ts';
import { CURRENT_VERSION, EARLIER_VERSION, RPC, type RpcError, VERSION_KEY } from './protocol.ts';

type Headers = Readonly<Record<string, string | readonly string[] | undefined>>;

/** What is wrong with the headers; undefined if nothing is. */
export function headerFault(message: ClientMessage, headers: Headers): RpcError | undefined {
  if (message.is !== 'request') return undefined;
  return message.version === CURRENT_VERSION
    ? currentFault(message, headers)
    : earlierFault(headers[MCP_PROTOCOL_VERSION]);
}

/** The current version demands the headers, with the values of the body. */
function currentFault({ method, params, version }: McpRequest, headers: Headers): RpcError | undefined {
  if (headers[MCP_PROTOCOL_VERSION] !== version) return mismatch(MCP_PROTOCOL_VERSION, version);
  if (headers[MCP_METHOD] !== method) return mismatch(MCP_METHOD, method);
  const { name } = params;
  if (method !== 'tools/call' || typeof name !== 'string') return undefined;
  return decoded(headers[MCP_NAME]) === name ? undefined : mismatch(MCP_NAME, name);
}

/** Of the version before it only the header of the version exists, and a client may leave it out. */
function earlierFault(version: Headers[string]): RpcError | undefined {
  if (version === undefined || version === EARLIER_VERSION) return undefined;
  if (version !== CURRENT_VERSION) return unsupportedVersion(String(version));
  return {
    code: RPC.invalidParams,
    message: `the header ${MCP_PROTOCOL_VERSION} names ${CURRENT_VERSION}, but "_meta" of the request has no "${VERSION_KEY}"`,
  };
}

const mismatch = (header: string, expected: string): RpcError => ({
  code: RPC.headerMismatch,
  message: `the header ${header} must be "${expected.slice(0, 200)}", as the body of the request says`,
});

const ENCODED = /^=\?base64\?([A-Za-z0-9+/]*={0,2})\?=$/;

/** A name that no header can hold is sent in Base64. */
function decoded(value: Headers[string]): string | undefined {
  if (typeof value !== 'string') return undefined;
  const encoded = ENCODED.exec(value)?.[1];
  return encoded === undefined ? value : Buffer.from(encoded, 'base64').toString();
}
