/** The parts of the Model Context Protocol that orchd serves: its versions, its error codes, and its JSON-RPC messages. */

/** The current version. Each request names it in `_meta`, and there is no handshake. */
export const CURRENT_VERSION = '2026-07-28';
/** The version before it: a client says `initialize` first, and its requests name no version. */
export const EARLIER_VERSION = '2025-11-25';
export type ProtocolVersion = typeof CURRENT_VERSION | typeof EARLIER_VERSION;

/** The fields of `_meta` of a request, and of a result, that the current version defines. */
export const VERSION_KEY = 'io.modelcontextprotocol/protocolVersion';
export const CAPABILITIES_KEY = 'io.modelcontextprotocol/clientCapabilities';
export const SERVER_INFO_KEY = 'io.modelcontextprotocol/serverInfo';

export const RPC = {
  parseError: -32700,
  invalidRequest: -32600,
  methodNotFound: -32601,
  invalidParams: -32602,
  internalError: -32603,
  /** The headers of an HTTP request say something else than its body. */
  headerMismatch: -32020,
  unsupportedVersion: -32022,
} as const;

export type RequestId = string | number;

export interface RpcError {
  readonly code: number;
  readonly message: string;
  readonly data?: unknown;
}

export interface SuccessReply {
  readonly jsonrpc: '2.0';
  readonly id: RequestId;
  readonly result: Readonly<Record<string, unknown>>;
}

export interface FailureReply {
  readonly jsonrpc: '2.0';
  /** Null if the request is too malformed to have one. */
  readonly id: RequestId | null;
  readonly error: RpcError;
}

/** The answer to a request. */
export type Reply = SuccessReply | FailureReply;

/** A message that is not answered, from the server to the client. */
export interface Notification {
  readonly jsonrpc: '2.0';
  readonly method: string;
  readonly params: Readonly<Record<string, unknown>>;
}

export const failure = (id: RequestId | null, error: RpcError): FailureReply => ({
  jsonrpc: '2.0',
  id,
  error,
});
