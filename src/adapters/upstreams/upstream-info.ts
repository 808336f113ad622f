/** What the brain is told about an upstream: the declaration of its backend. */
import type { BackendInfo } from '../../core/ports/backend.ts';
import type { UpstreamState } from '../../model/upstream-wire.ts';
import type { UpstreamSettings } from './settings.ts';

export const UPSTREAM_KIND = 'upstream';

export interface UpstreamBackend {
  readonly name: string;
  /** Undefined for an upstream that is not configured any more: what runs there ends, and nothing new is begun. */
  readonly settings: UpstreamSettings | undefined;
  /** The node at which its executor runs; undefined outside of a cluster. */
  readonly node: string | undefined;
}

/** `state` is undefined until its executor has answered. */
export function upstreamInfo(
  { name, settings, node }: UpstreamBackend,
  state: UpstreamState | undefined,
  outage: string | undefined,
): BackendInfo {
  const models = settings ? (state?.models ?? []) : [];
  const contexts = models.flatMap(({ id, context_length: length }) =>
    length === undefined ? [] : [[id, length] as const],
  );
  return {
    name,
    kind: UPSTREAM_KIND,
    slots: state?.slots ?? 1,
    types: ['inference'],
    models: models.map(({ id }) => id),
    labels: { upstream: name },
    // What was begun for an upstream that is not configured any more may have cost money.
    paid: settings?.paid ?? true,
    hasProvider: true,
    keepsResults: true,
    endsWithProcess: true,
    registry: state?.registry ?? '',
    contextLengths: new Map(contexts),
    hasForeignModels: true,
    formerModels: formerOf(settings, state),
    outage,
    node,
  };
}

const formerOf = (settings: UpstreamSettings | undefined, state: UpstreamState | undefined): string[] =>
  settings ? [...(state?.former ?? [])] : (state?.models ?? []).map(({ id }) => id);
