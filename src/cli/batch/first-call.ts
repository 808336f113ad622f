/** The first request of a command that survives a restart of the server. */
import { ClientError } from '../../client/client.ts';
import { Patience } from '../../client/patience.ts';

/**
 * A server that is not there is reported at once: its address may be wrong. One that was there, and died while it was
 * asked, is asked again for a while. The request must be one that can be repeated.
 */
export async function firstCall<T>(call: () => Promise<T>, onReconnect: () => void): Promise<T> {
  let patience: Patience | undefined;
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (!patience && !wasThere(error)) throw error;
      patience ??= new Patience({ onReconnect });
      await patience.failed(error);
    }
  }
}

const BROKEN: readonly (string | undefined)[] = ['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET'];

function wasThere(error: unknown): boolean {
  if (!(error instanceof ClientError)) return false;
  if (error.status !== 0) return error.retriable && error.status === 503;
  // The error of fetch() has the error of the connection as its cause.
  const { cause } = (error.cause ?? {}) as { readonly cause?: { readonly code?: string } };
  return BROKEN.includes(cause?.code);
}
