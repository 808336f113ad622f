/** A server that other machines can reach does not start without a token. */
import { join, resolve } from 'node:path';
import { isLoopbackHost } from '../config/address.ts';
import type { Disk } from '../kit/env/env.ts';
import { OrchdError } from '../model/errors.ts';
import { readTokens, TOKEN_FILE } from '../wire/token-file.ts';

/** Throws CONFIG_INVALID if callers of this address would need a token, and the data folder has none. */
export async function checkTokenNeeded(disk: Disk, host: string, data: string): Promise<void> {
  if (isLoopbackHost(host)) return;
  if ((await readTokens(disk, join(resolve(data), TOKEN_FILE))).length > 0) return;
  throw new OrchdError(
    'CONFIG_INVALID',
    `${host} can be reached from other machines, so callers need a token: run \`orchd token create NAME --role admin --data ${data}\` first`,
    { field: 'orchestrator.bind_addr' },
  );
}
