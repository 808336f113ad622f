/** The Portkey gateway in a process of its own, started as its package does. */
import { fileURLToPath } from 'node:url';
import { freePort } from '../../src/kit/free-port.ts';
import { answersAt } from './answers-at.ts';
import { startDaemon } from './daemon.ts';
import type { ProxyDaemon } from './nginx.ts';

const PROGRAM = fileURLToPath(
  new URL('../peers/node_modules/@portkey-ai/gateway/build/start-server.js', import.meta.url),
);

/** Portkey sleeps this long, on purpose, before it forwards the first piece of every stream. */
export const PORTKEY_SLEEP_MS = 25;

/** `flags` are those of Node. */
export async function startPortkey(flags: readonly string[] = []): Promise<ProxyDaemon> {
  const port = await freePort();
  const args = [...flags, PROGRAM, '--headless', `--port=${port}`];
  const daemon = await startDaemon({ program: process.execPath, args, answers: () => answersAt(port) });
  return { ...daemon, port };
}

/** The headers that tell Portkey the address of the model. */
export const portkeyHeaders = (upstream: number): string[] => [
  'authorization: Bearer bench',
  'x-portkey-provider: openai',
  `x-portkey-custom-host: http://127.0.0.1:${upstream}/v1`,
];
