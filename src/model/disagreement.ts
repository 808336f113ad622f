/** A backend that knows another copy of the store. */
export interface Disagreement {
  readonly backend: string;
  /** What the backend knows, in words for people. */
  readonly what: string;
  /** Whether the backend gets no work, because what it does not know proves nothing. */
  readonly isForeign: boolean;
}
