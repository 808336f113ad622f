/**
 * Verifies the checksum and signature of a model file at the pool that has it, and records the verdict in the catalog.
 * The progress is streamed as server-sent events to clients that accept them.
 */

import type { PoolManagers } from '../core/ports/pools.ts';
import type { Env } from '../kit/env/env.ts';
import { OrchdError } from '../model/errors.ts';
import type { VerificationView } from '../model/http/catalog.ts';
import type { VerifyResult } from '../model/pool-wire.ts';
import type { ModelRecord } from '../model/records.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import { openEventStream } from '../wire/event-stream.ts';
import type { Stream } from '../wire/route.ts';
import { formatEvent } from '../wire/sse.ts';

export interface VerificationOptions {
  readonly env: Env;
  readonly heartbeatMs: number;
  readonly managers: Pick<PoolManagers, 'verify'> | undefined;
  readonly verifyPolicy: 'warn' | 'block';
}

/** One verification of one model. */
export class ModelVerification {
  readonly #catalog: Orchestrator['catalog'];
  readonly #options: VerificationOptions;
  readonly #model: ModelRecord;

  constructor(catalog: Orchestrator['catalog'], options: VerificationOptions, model: ModelRecord) {
    this.#catalog = catalog;
    this.#options = options;
    this.#model = model;
  }

  async run(onProgress: (bytes: number, total: number) => void): Promise<VerificationView> {
    const { managers, verifyPolicy, env } = this.#options;
    if (!managers) throw new OrchdError('POOL_UNAVAILABLE', 'no pool manager is configured');
    const { id, ref, sha256, signature, publicKey } = this.#model;
    const expected = {
      model_ref: ref,
      ...(sha256 !== undefined && { sha256 }),
      ...(signature !== undefined && { signature }),
      ...(publicKey !== undefined && { public_key: publicKey }),
    };
    const result = await managers.verify(expected, onProgress);
    const verdict = verdictOf(result, verifyPolicy);
    const verified = { at: env.clock.now(), pool: result.pool, verdict, sha256: result.sha256 };
    const model = await this.#catalog.verified(id, verified);
    return { verdict, ...result, model };
  }

  stream(): Stream {
    const { env, heartbeatMs } = this.#options;
    return {
      stream: (request, response) => {
        const nothing = (): void => undefined;
        const parts = {
          request,
          response,
          timers: env.timers,
          heartbeatMs,
          onDrain: nothing,
          onClose: nothing,
        };
        const out = openEventStream(parts);
        const send = (event: string, data: object): void => {
          out.write(formatEvent({ event, data: JSON.stringify(data) }));
        };
        this.run((bytes, total) => send('progress', { bytes, total }))
          .then(
            (view) => send('end', view),
            (error) => send('error', error instanceof OrchdError ? error.info() : { code: 'INTERNAL' }),
          )
          .finally(() => out.end());
      },
    };
  }
}

/** A mismatch is `warn`, or `fail` with the policy `block`. A model without checksum and signature is always `warn`. */
function verdictOf(
  { checksum, signature }: VerifyResult,
  policy: 'warn' | 'block',
): 'pass' | 'warn' | 'fail' {
  if (checksum === 'fail' || signature === 'fail') return policy === 'block' ? 'fail' : 'warn';
  return checksum === 'pass' || signature === 'pass' ? 'pass' : 'warn';
}
