/** Finds out whether bubblewrap works on this machine, by running it once with the options that commands get. */
import { execFile } from 'node:child_process';
import { plainEnvironment } from '../../../kit/process/environment.ts';
import { bwrapWords, type Sandbox } from './sandbox.ts';

const TIMEOUT_MS = 10_000;
const MAX_WHY_CHARS = 300;

/**
 * Says `confined` where it has its own processes and only the loopback interface: a program named bwrap that runs the
 * command without confining it must not pass.
 */
const SCRIPT = [
  'test "$$" -le 9 || { echo "it sees the processes of the machine"; exit 0; }',
  'test "$(grep -c : /proc/net/dev)" -le 1 || { echo "it sees the network"; exit 0; }',
  'echo confined',
].join('\n');

/** `folder`: an existing folder, which the probe binds as commands bind theirs. */
export function probeSandbox(folder: string): Promise<Sandbox> {
  const [program = '', ...words] = bwrapWords({ folder, read: [], network: false });
  return new Promise((resolve) => {
    execFile(
      program,
      [...words, '/bin/sh', '-c', SCRIPT],
      { env: plainEnvironment(), timeout: TIMEOUT_MS, killSignal: 'SIGKILL', maxBuffer: 64 * 1024 },
      (error, stdout, stderr) => resolve(verdictOf(error, stdout.trim(), stderr.trim())),
    );
  });
}

function verdictOf(error: (Error & { code?: unknown }) | null, said: string, complaint: string): Sandbox {
  if (error?.code === 'ENOENT')
    return { works: false, why: 'bwrap is not installed: it is in the package bubblewrap' };
  if (!error && said === 'confined') return { works: true };
  const why = (complaint || said || error?.message || 'it said nothing').split('\n')[0] as string;
  return { works: false, why: `bwrap does not work here: ${why.slice(0, MAX_WHY_CHARS)}` };
}
