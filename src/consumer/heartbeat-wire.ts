/** What a consumer and its heartbeat thread tell each other. */
import type { HeldAnswer } from '../model/http/consumers.ts';
import type { ApiAddress } from './api.ts';

/** The tokens and the claim that the next heartbeats name; the two threads share it as a SharedValue. */
export interface Beaten {
  readonly consumerId: string;
  readonly heartbeatMs: number;
  readonly leaseTtlMs: number;
  readonly held: readonly string[];
  readonly claimed: number;
}

/**
 * `begin`: the value names this consumer from now on. `heard`: the last answer was taken in. Until then no other one is
 * passed on, so that none pile up.
 */
export type ToThread =
  | { readonly is: 'begin'; readonly consumerId: string }
  | { readonly is: 'heard' }
  | { readonly is: 'now' };

export type FromThread =
  | { readonly is: 'answer'; readonly consumerId: string; readonly answer: HeldAnswer }
  | { readonly is: 'gone'; readonly consumerId: string }
  | { readonly is: 'failed'; readonly message: string };

export interface ThreadData {
  readonly address: ApiAddress;
  readonly memory: SharedArrayBuffer;
}
