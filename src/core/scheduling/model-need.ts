/** What a model demands of the backends that run a job: its exact reference, and a context that is long enough. */
import type { Fleet } from '../queue/fleet.ts';
import type { State } from '../state/state.ts';

const SMALLEST_BUCKET = 4096;

/** The context rounded up to a power of two, so that similar jobs share a lane. Small ones fit anywhere. */
export function contextBucket(tokens: number | undefined, longest: number): number | undefined {
  if (tokens === undefined || tokens <= SMALLEST_BUCKET) return undefined;
  let bucket = SMALLEST_BUCKET;
  while (bucket < tokens) bucket *= 2;
  return Math.min(bucket, longest);
}

/** The longest context that upstreams have for a model; undefined unless all of them that have the model know it. */
export function longestContext({ backends }: Fleet, model: string): number | undefined {
  let longest: number | undefined;
  for (const { info } of backends.values()) {
    if (!info.models?.includes(model)) continue;
    const length = info.contextLengths?.get(model);
    if (length === undefined) return undefined;
    longest = Math.max(longest ?? 0, length);
  }
  return longest;
}

export interface ModelNeed {
  readonly model: string;
  readonly modelRef?: string;
  readonly contextTokens?: number;
}

/** The need of a job for a model by one of its names; `too_long` if no backend can have a context for its tokens. */
export function modelNeed(
  { catalog }: State,
  fleet: Fleet,
  name: string,
  tokens: number | undefined,
): ModelNeed | 'too_long' {
  const known = catalog.find(name);
  const longest = known ? known.contextLength : longestContext(fleet, name);
  if (longest !== undefined && tokens !== undefined && tokens > longest) return 'too_long';
  const contextTokens = longest === undefined ? undefined : contextBucket(tokens, longest);
  return {
    model: known?.id ?? name,
    ...(known && { modelRef: known.ref }),
    ...(contextTokens !== undefined && { contextTokens }),
  };
}
