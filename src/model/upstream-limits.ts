/** Bounds of upstreams. */

/** The models of one upstream that orchd offers at most: the brain handles a change of them in one turn. */
export const MAX_UPSTREAM_MODELS = 2000;
/** Jobs that an upstream may be given at a time. */
export const MAX_UPSTREAM_SLOTS = 1024;
