/**
 * The supervisor program, one process for each command. It reads its spec from standard input, creates the token's
 * folder, replies on standard output, and does not depend on the brain after that.
 */
import type { SpecHeader, SupervisorReply, SupervisorSpec, TokenPaths } from './layout.ts';
import { Supervisor } from './supervisor.ts';
import { createTokenFolder } from './token-folder.ts';

/** Larger than any payload that is admitted. */
const MAX_SPEC_BYTES = 600 * 1024 * 1024;
/** A spec that is older is not carried out: by then the brain has long given it up. */
const MAX_SPEC_AGE_MS = 5 * 60_000;

let supervisor: Supervisor | undefined;

process.on('SIGTERM', () => {
  if (supervisor) supervisor.stop('ordered');
  else process.exit(0);
});
for (const name of ['SIGHUP', 'SIGINT'] as const) process.on(name, () => undefined);
// The brain may be gone before the reply is written.
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
  const spec = parse(Buffer.concat(chunks));
  chunks.length = 0;
  if (spec) begin(spec);
});

/** Undefined for a spec that was cut off because the brain died while it wrote: nothing is started then. */
function parse(bytes: Buffer): SupervisorSpec | undefined {
  const end = bytes.indexOf('\n');
  if (end < 0) return undefined;
  try {
    const { payloadBytes, ...rest } = JSON.parse(bytes.toString('utf8', 0, end)) as SpecHeader;
    const payload = bytes.subarray(end + 1);
    return payload.length === payloadBytes ? { ...rest, payload } : undefined;
  } catch {
    return undefined;
  }
}

function begin(spec: SupervisorSpec): void {
  let paths: TokenPaths | 'taken';
  try {
    if (Date.now() - spec.offeredAt > MAX_SPEC_AGE_MS) throw new Error('it came too late');
    paths = createTokenFolder(spec, Date.now());
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    // The message of a system error contains paths of this machine, so only its code is passed on.
    return reply({
      is: 'failed',
      message: code === undefined ? message : `no place could be made for it (${code})`,
    });
  }
  if (paths === 'taken') return reply({ is: 'taken' });
  reply({ is: 'accepted' });
  supervisor = new Supervisor(spec, paths);
  supervisor.run();
}

function reply(message: SupervisorReply): void {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}
