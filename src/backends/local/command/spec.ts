/** What a keeper is told about the command of an offer. */
import type { Offer } from '../../../core/ports/backend.ts';
import { plainEnvironment } from '../../../kit/process/environment.ts';
import { markVariable } from '../../../kit/process/marked.ts';
import { uidOf } from '../../../model/records.ts';
import { TRACEPARENT_VARIABLE, traceparentOf } from '../../../model/trace.ts';
import type { CommandSpec } from './keeper-wire.ts';
import { markOf } from './layout.ts';
import { COMMAND_DEFAULTS, type OfferedCommand } from './options.ts';

interface SpecParts extends Pick<CommandSpec, 'name' | 'maxOutputBytes' | 'offeredAt'> {
  /** The id of the backend's memory. */
  readonly registry: string;
}

export function specOf(
  { token, ask, attempt }: Offer,
  type: OfferedCommand,
  { registry, ...parts }: SpecParts,
): CommandSpec {
  const traceparent = traceparentOf(uidOf(ask.tenant, ask.id), ask, attempt);
  return {
    ...parts,
    token,
    hash: ask.hash,
    jobId: ask.id,
    model: ask.spec.model,
    argv: type.argv,
    cwd: type.cwd,
    env: {
      ...plainEnvironment(),
      // An embedding program may give its jobs any id; a variable cannot hold a NUL.
      JOB_ID: ask.id.replaceAll('\0', ''),
      ...(ask.spec.model === undefined ? {} : { JOB_MODEL: ask.spec.model }),
      ...(traceparent === undefined ? {} : { [TRACEPARENT_VARIABLE]: traceparent }),
      ...type.env,
      ...markVariable(markOf(registry, parts.name)),
    },
    split: type.split ?? COMMAND_DEFAULTS.split,
    ...(type.output && { output: type.output }),
    timeoutMs: type.timeoutMs ?? ask.spec.timeout_ms,
    ...(type.timeoutMs !== undefined && { isOwnTimeout: true }),
  };
}
