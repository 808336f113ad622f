/** Fetches models from a hub into the cache. */
import type { HfRef } from '../../model/model-ref.ts';

export interface Fetched {
  readonly commit: string;
  readonly file: string;
}

export interface Hub {
  fetch(ref: HfRef, cache: string): Promise<Fetched>;
}
