/** Runs a program of the machine for what it says: no shell, a bound on its time and on its words. */
import { execFile } from 'node:child_process';

export type Said =
  | { readonly is: 'said'; readonly text: string }
  | { readonly is: 'missing' }
  | { readonly is: 'failed'; readonly why: string };

const MAX_BYTES = 256 * 1024;

export function runProgram(argv: readonly string[], timeoutMs: number): Promise<Said> {
  const [program = '', ...args] = argv;
  const options = {
    timeout: timeoutMs,
    maxBuffer: MAX_BYTES,
    killSignal: 'SIGKILL',
    encoding: 'utf8',
  } as const;
  return new Promise((resolve) => {
    execFile(program, args, options, (error, text) => {
      if (!error) return resolve({ is: 'said', text });
      if (error.code === 'ENOENT') return resolve({ is: 'missing' });
      resolve({ is: 'failed', why: whyOf(error) });
    });
  });
}

function whyOf({ code, killed, signal }: { code?: unknown; killed?: boolean; signal?: unknown }): string {
  if (code === 'ERR_CHILD_PROCESS_STDIO_MAXBUFFER') return 'said too much';
  if (killed) return 'did not answer in time';
  return typeof code === 'number' ? `ended with code ${code}` : `failed (${code ?? signal ?? 'unknown'})`;
}
