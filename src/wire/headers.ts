/**
 * The names of the HTTP headers that orchd reads and sends, and which of them a node forwards between client and
 * leader.
 */

export const CORRELATION_ID = 'x-correlation-id';
export const LAST_EVENT_ID = 'last-event-id';
export const IDEMPOTENCY_KEY = 'idempotency-key';
export const RETRY_AFTER = 'retry-after';
export const BACKOFF_MS = 'x-backoff-ms';
/** `true` or `false`: OpenAI's clients obey it, and otherwise repeat whatever has status 409 or 500. */
export const SHOULD_RETRY = 'x-should-retry';

/** Response headers with the id, queue position and predicted start of the job that a request became. */
export const JOB_ID_HEADER = 'x-orchd-job-id';
export const QUEUE_POSITION = 'x-orchd-queue-position';
export const PREDICTED_START_MS = 'x-orchd-predicted-start-ms';
/** What the job has cost, in millionths of the currency. */
export const COST = 'x-orchd-cost';
export const CURRENCY = 'x-orchd-currency';

/** Request headers that set options of a job submitted in OpenAI's format. */
export const AGENT = 'x-orchd-agent';
export const PRIORITY = 'x-orchd-priority';
export const SESSION = 'x-orchd-session';

/** Request headers of the Model Context Protocol, which repeat what the body of the request says. */
export const MCP_PROTOCOL_VERSION = 'mcp-protocol-version';
export const MCP_METHOD = 'mcp-method';
export const MCP_NAME = 'mcp-name';
export const MCP_HEADERS = [MCP_PROTOCOL_VERSION, MCP_METHOD, MCP_NAME] as const;

/** Request headers that set options of the job; a node that does not lead forwards them to the leader. */
export const JOB_OPTION_HEADERS = [IDEMPOTENCY_KEY, AGENT, PRIORITY, SESSION] as const;

export const JOB_HEADERS = [JOB_ID_HEADER, QUEUE_POSITION, PREDICTED_START_MS, COST, CURRENCY] as const;

/** Response headers that a node copies from the leader's answer, and that web pages of other origins may read. */
export const ANSWER_HEADERS = [RETRY_AFTER, BACKOFF_MS, SHOULD_RETRY, ...JOB_HEADERS] as const;

type Headers = Readonly<Record<string, string | readonly string[] | undefined>>;

/** The value of a header; undefined if it is empty, missing or repeated. */
export function headerOf(headers: Headers, name: string): string | undefined {
  const value = headers[name];
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** The named headers that have a value, to be forwarded. */
export function pickHeaders(headers: Headers, names: readonly string[]): Record<string, string> {
  const picked: Record<string, string> = {};
  for (const name of names) {
    const value = headers[name];
    if (typeof value === 'string') picked[name] = value;
  }
  return picked;
}
