/** Reads a JSON-RPC message of a client: a request with the version of the protocol that it is of, or what is wrong with it. */
import {
  CAPABILITIES_KEY,
  CURRENT_VERSION,
  EARLIER_VERSION,
  type ProtocolVersion,
  type RequestId,
  RPC,
  type RpcError,
  VERSION_KEY,
} from './protocol.ts';

export type Fields = Readonly<Record<string, unknown>>;

export interface McpRequest {
  readonly is: 'request';
  readonly id: RequestId;
  readonly method: string;
  readonly params: Fields;
  readonly version: ProtocolVersion;
}

export type ClientMessage =
  | McpRequest
  | { readonly is: 'notification'; readonly method: string; readonly params: Fields }
  /** The answer to a request of the server. The server makes none, so it is ignored. */
  | { readonly is: 'response' }
  | { readonly is: 'invalid'; readonly id: RequestId | null; readonly error: RpcError };

/** A longer id is refused, because it is sent back. */
const MAX_ID_CHARS = 1000;

export function readMessage(value: unknown): ClientMessage {
  if (Array.isArray(value))
    return invalid(null, 'a batch of messages is not supported: send one message at a time');
  const id = idIn(value);
  if (!isFields(value) || value['jsonrpc'] !== '2.0')
    return invalid(id, 'this is not a message of JSON-RPC 2.0');
  const { method, params = {} } = value;
  if (method === undefined && ('result' in value || 'error' in value)) return { is: 'response' };
  if (typeof method !== 'string') return invalid(id, '"method" must be a text');
  if (!isFields(params)) return invalid(id, '"params" must be an object', RPC.invalidParams);
  if (value['id'] === undefined) return { is: 'notification', method, params };
  if (id === null)
    return invalid(null, `"id" must be a whole number, or a text of up to ${MAX_ID_CHARS} characters`);
  const version = versionOf(params);
  return typeof version === 'string'
    ? { is: 'request', id, method, params, version }
    : { is: 'invalid', id, error: version };
}

/** The version that the request is of: the one that `_meta` names, or the one before it, which names none. */
function versionOf({ _meta: meta }: Fields): ProtocolVersion | RpcError {
  if (!isFields(meta) || !(VERSION_KEY in meta)) return EARLIER_VERSION;
  const { [VERSION_KEY]: named, [CAPABILITIES_KEY]: capabilities } = meta;
  if (typeof named !== 'string') return wrongMeta(`"${VERSION_KEY}" must be a text`);
  if (named !== CURRENT_VERSION) return unsupportedVersion(named);
  return isFields(capabilities) ? CURRENT_VERSION : wrongMeta(`"${CAPABILITIES_KEY}" must be an object`);
}

export const unsupportedVersion = (requested: string): RpcError => ({
  code: RPC.unsupportedVersion,
  message: 'this version of the protocol is not supported',
  data: { supported: [CURRENT_VERSION, EARLIER_VERSION], requested: requested.slice(0, 64) },
});

const wrongMeta = (what: string): RpcError => ({ code: RPC.invalidParams, message: `in "_meta", ${what}` });

const invalid = (
  id: RequestId | null,
  message: string,
  code: number = RPC.invalidRequest,
): ClientMessage => ({
  is: 'invalid',
  id,
  error: { code, message },
});

export const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function idIn(value: unknown): RequestId | null {
  const id = isFields(value) ? value['id'] : null;
  return isRequestId(id) ? id : null;
}

/** Whether a value can be the id of a request. */
export const isRequestId = (id: unknown): id is RequestId =>
  Number.isSafeInteger(id) || (typeof id === 'string' && id.length <= MAX_ID_CHARS);

/** The token under which the client of a request wants to hear how far it is; undefined if it does not. */
export function progressTokenOf({ params }: Pick<McpRequest, 'params'>): string | number | undefined {
  const { _meta: meta } = params;
  const token = isFields(meta) ? meta['progressToken'] : undefined;
  return typeof token === 'string' || Number.isSafeInteger(token) ? (token as string | number) : undefined;
}
