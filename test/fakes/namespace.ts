/** A network namespace with one way out, which can be cut: packets are then dropped without a word. */
import { execFile, execFileSync } from 'node:child_process';
import { createConnection, createServer } from 'node:net';
import type { TestContext } from 'node:test';
import { promisify } from 'node:util';
import { needDebian } from './debian.ts';

const run = promisify(execFile);

export interface Namespace {
  /** The address of what runs inside, and of this side of the way. */
  readonly inside: string;
  readonly outside: string;
  /** Words that run a command inside. */
  readonly within: readonly string[];
  cut(): Promise<void>;
  mend(): Promise<void>;
}

export async function makeNamespace(t: TestContext): Promise<Namespace> {
  if (process.getuid?.() !== 0)
    throw new Error('a network namespace is made by root only: run the tests as root');
  const ip = await needDebian('iproute2', 'ip');
  const name = `orchd-${process.pid}`;
  const link = `o${process.pid}`;
  const net = `10.${200 + (process.pid % 50)}.${Math.floor(process.pid / 50) % 250}`;
  const [outside, inside] = [`${net}.1`, `${net}.2`];
  const within = [ip, 'netns', 'exec', name];
  t.after(() => {
    execFileSync(ip, ['netns', 'del', name]);
  });
  await run(ip, ['netns', 'add', name]);
  await run(ip, ['link', 'add', link, 'type', 'veth', 'peer', 'name', 'way', 'netns', name]);
  await run(ip, ['addr', 'add', `${outside}/24`, 'dev', link]);
  await run(ip, ['link', 'set', link, 'up']);
  await run(ip, ['-n', name, 'addr', 'add', `${inside}/24`, 'dev', 'way']);
  await run(ip, ['-n', name, 'link', 'set', 'way', 'up']);
  await run(ip, ['-n', name, 'link', 'set', 'lo', 'up']);
  const set = async (how: 'up' | 'down'): Promise<void> => {
    await run(ip, ['link', 'set', link, how]);
  };
  return { inside, outside, within, cut: () => set('down'), mend: () => set('up') };
}

/** A server's own address may be a socket of this machine: this lets it be reached by a port too. */
export async function door(
  t: TestContext,
  host: string,
  to: { path: string } | { host: string; port: number },
) {
  const server = createServer((near) => {
    const far = createConnection(to);
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      one.on('error', () => other.destroy()).on('close', () => other.destroy());
      one.pipe(other);
    }
  });
  await new Promise<void>((resolve) => {
    server.listen(0, host, resolve);
  });
  t.after(() => server.close());
  const address = server.address();
  return typeof address === 'object' && address ? address.port : 0;
}
