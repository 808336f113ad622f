/** Finds a free port, for servers that cannot choose one themselves. */
import { type AddressInfo, createServer } from 'node:net';

export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => resolve(port));
    });
  });
}

/** True where an HTTP server answers at this port, with any status. */
export const answersAt = (port: number): Promise<boolean> =>
  fetch(`http://127.0.0.1:${port}/`).then(
    (answer) => answer.body?.cancel().then(() => true) ?? true,
    () => false,
  );
