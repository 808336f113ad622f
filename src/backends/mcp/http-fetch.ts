/**
 * `fetch` for the official client's HTTP transport, over our own outbound client: its rules about addresses, redirects,
 * connections and bytes hold (wire/outbound.ts). Requests to any other address than that of the server are refused.
 */
import type { FetchLike } from '@modelcontextprotocol/client';
import type { Secret } from '../../kit/secret.ts';
import { OrchdError } from '../../model/errors.ts';
import type { StreamReply, Target } from '../../wire/outbound.ts';

export interface FetchParts {
  readonly target: Target;
  readonly url: string;
  readonly key: Secret | undefined;
  /** The longest silence, before an answer and in it. */
  readonly idleMs: number;
  /** The longest body of an answer; one that goes on is cut off. */
  readonly maxBytes: number;
}

const METHODS = ['GET', 'POST', 'DELETE'] as const;
const WITHOUT_BODY = [204, 205, 304];

export function outboundFetch({ target, url, key, idleMs, maxBytes }: FetchParts): FetchLike {
  const { href, pathname } = new URL(url);
  return async (to, init = {}) => {
    if (new URL(to).href !== href)
      throw new OrchdError('MCP_PROTOCOL', 'the server leads to another address, which is not asked');
    const method = METHODS.find((each) => each === (init.method ?? 'GET'));
    if (!method) throw new OrchdError('MCP_PROTOCOL', `requests with ${init.method} are not made`);
    const headers = Object.fromEntries(new Headers(init.headers));
    if (key) headers['authorization'] = `Bearer ${key.reveal()}`;
    const reply = await target.stream({
      method,
      path: pathname.endsWith('/') ? '/' : '',
      headers,
      ...(typeof init.body === 'string' && { body: init.body }),
      ...(init.signal && { signal: init.signal }),
      timeoutMs: idleMs,
      idleMs,
    });
    return responseOf(reply, maxBytes);
  };
}

function responseOf(reply: StreamReply, maxBytes: number): Response {
  const headers = new Headers();
  for (const [name, value] of Object.entries(reply.headers))
    if (value !== undefined) headers.set(name, Array.isArray(value) ? value.join(', ') : value);
  const init = { status: reply.status, headers };
  if (WITHOUT_BODY.includes(reply.status)) {
    reply.close();
    return new Response(null, init);
  }
  return new Response(bodyOf(reply, maxBytes), init);
}

function bodyOf(reply: StreamReply, maxBytes: number): ReadableStream<Uint8Array> {
  let bytes = 0;
  return new ReadableStream<Uint8Array>({
    start(controller) {
      const on = (piece: Buffer): void => {
        bytes += piece.length;
        if (bytes > maxBytes) {
          reply.close();
          controller.error(new OrchdError('MCP_PROTOCOL', `the server sent more than ${maxBytes} bytes`));
          return;
        }
        controller.enqueue(piece);
        if ((controller.desiredSize ?? 0) <= 0) reply.pause();
      };
      // An error after `maxBytes` is the one that was reported already.
      reply.read(on).then(
        () => bytes <= maxBytes && controller.close(),
        (error: unknown) => bytes <= maxBytes && controller.error(error),
      );
    },
    pull: () => reply.resume(),
    cancel: () => reply.close(),
  });
}
