/** Finds out whether the process behind an address is gone. */
import { connect } from 'node:net';

/**
 * True only where every connection to the address was refused: the machine answers, and no process listens there. A
 * process that is stopped or busy still gets connections, and one that is cut off answers nothing: both count as alive.
 */
export function nobodyListens(address: string, patienceMs: number): Promise<boolean> {
  if (!URL.canParse(address)) return Promise.resolve(false);
  const { hostname, port, protocol } = new URL(address);
  const host = hostname.replace(/^\[|\]$/g, '');
  return new Promise((resolve) => {
    const socket = connect({ host, port: Number(port || (protocol === 'https:' ? 443 : 80)) });
    const end = (isRefused: boolean): void => {
      socket.destroy();
      resolve(isRefused);
    };
    socket.setTimeout(patienceMs, () => end(false));
    socket.once('connect', () => end(false));
    socket.once('error', (error) => end(wasRefused(error)));
  });
}

/** A host name may stand for several addresses: the error then has one error for each of them. */
function wasRefused(error: Error & { readonly code?: string; readonly errors?: readonly Error[] }): boolean {
  return error.errors ? error.errors.every(wasRefused) : error.code === 'ECONNREFUSED';
}
