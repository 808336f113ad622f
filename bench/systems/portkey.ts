/** The gateway of Portkey in a process of its own, as its package starts it. */
import { fileURLToPath } from 'node:url';
import { startDaemon } from './daemon.ts';
import { answersAt, freePort } from './free-port.ts';
import type { ProxyDaemon } from './nginx.ts';

const PROGRAM = fileURLToPath(
  new URL('../peers/node_modules/@portkey-ai/gateway/build/start-server.js', import.meta.url),
);

/** It waits so long, on purpose, before it hands on the first piece of every stream: no cost of its own. */
export const PORTKEY_SLEEP_MS = 25;

export async function startPortkey(): Promise<ProxyDaemon> {
  const port = await freePort();
  const args = [PROGRAM, '--headless', `--port=${port}`];
  const daemon = await startDaemon({ program: process.execPath, args, answers: () => answersAt(port) });
  return { ...daemon, port };
}

/** What tells it where the model is. */
export const portkeyHeaders = (upstream: number): string[] => [
  'authorization: Bearer bench',
  'x-portkey-provider: openai',
  `x-portkey-custom-host: http://127.0.0.1:${upstream}/v1`,
];
