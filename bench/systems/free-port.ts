/** For servers that cannot choose one and say which. */
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

/** Whether something answers there, with whatever. */
export const answersAt = (port: number): Promise<boolean> =>
  fetch(`http://127.0.0.1:${port}/`).then(
    (answer) => answer.body?.cancel().then(() => true) ?? true,
    () => false,
  );
