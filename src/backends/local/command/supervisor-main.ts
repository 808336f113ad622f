/**
 * The program that stands between the brain and one command. Its spec comes on standard input; it takes the
 * token's folder, says so on standard output, and needs the brain no more.
 */
import type { Spec, SupervisorReply, TokenPaths } from './layout.ts';
import { takePlace } from './place.ts';
import { Supervisor } from './supervisor.ts';

/** Larger than any payload that is let in. */
const MAX_SPEC_BYTES = 600 * 1024 * 1024;
/** A spec that lay around for longer is not carried out: by then the brain has long given it up. */
const LATE_MS = 5 * 60_000;

let supervisor: Supervisor | undefined;

process.on('SIGTERM', () => {
  if (supervisor) supervisor.stop('ordered');
  else process.exit(0);
});
for (const name of ['SIGHUP', 'SIGINT'] as const) process.on(name, () => undefined);
// The brain may be gone when it is answered.
process.stdout.on('error', () => undefined);

const chunks: Buffer[] = [];
let size = 0;
process.stdin.on('error', () => process.exit(0));
process.stdin.on('data', (bytes: Buffer) => {
  size += bytes.length;
  if (size > MAX_SPEC_BYTES) process.exit(1);
  chunks.push(bytes);
});
process.stdin.on('end', () => {
  const spec = parse(Buffer.concat(chunks).toString());
  chunks.length = 0;
  if (spec) begin(spec);
});

/** Half a spec is no JSON: its sender died, and nothing is begun. */
function parse(text: string): Spec | undefined {
  try {
    return JSON.parse(text) as Spec;
  } catch {
    return undefined;
  }
}

function begin(spec: Spec): void {
  let paths: TokenPaths | 'taken';
  try {
    if (Date.now() - spec.offeredAt > LATE_MS) throw new Error('it came too late');
    paths = takePlace(spec, Date.now());
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    // What the system says names folders of this machine.
    return say({
      is: 'failed',
      message: code === undefined ? message : `no place could be made for it (${code})`,
    });
  }
  if (paths === 'taken') return say({ is: 'taken' });
  say({ is: 'accepted' });
  supervisor = new Supervisor(spec, paths);
  supervisor.run();
}

function say(reply: SupervisorReply): void {
  process.stdout.write(`${JSON.stringify(reply)}\n`);
}
