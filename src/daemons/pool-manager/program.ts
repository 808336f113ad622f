/** Runs a program and returns its output: without a shell, with a bound on its time and on its output. */
import { execFile } from 'node:child_process';

export type ProgramResult =
  | { readonly is: 'succeeded'; readonly output: string }
  | { readonly is: 'missing' }
  | { readonly is: 'failed'; readonly why: string };

const MAX_OUTPUT_BYTES = 256 * 1024;

export function runProgram(argv: readonly string[], timeoutMs: number): Promise<ProgramResult> {
  const [program = '', ...args] = argv;
  const options = {
    timeout: timeoutMs,
    maxBuffer: MAX_OUTPUT_BYTES,
    killSignal: 'SIGKILL',
    encoding: 'utf8',
  } as const;
  return new Promise((resolve) => {
    execFile(program, args, options, (error, output) => {
      if (!error) return resolve({ is: 'succeeded', output });
      if (error.code === 'ENOENT') return resolve({ is: 'missing' });
      resolve({ is: 'failed', why: whyOf(error) });
    });
  });
}

function whyOf({ code, killed, signal }: { code?: unknown; killed?: boolean; signal?: unknown }): string {
  if (code === 'ERR_CHILD_PROCESS_STDIO_MAXBUFFER') return 'wrote too much output';
  if (killed) return 'did not answer in time';
  return typeof code === 'number' ? `ended with code ${code}` : `failed (${code ?? signal ?? 'unknown'})`;
}
