/** The events of a job, and how a client follows them. */

export interface TaskEvent {
  readonly id: string | undefined;
  readonly event: string;
  readonly data: unknown;
}

export interface FollowOptions {
  /** The id of the last event that the caller has received; the stream goes on after it. */
  readonly after?: string;
  readonly signal?: AbortSignal;
  /** How long to keep reconnecting while the brain cannot be reached. */
  readonly patienceMs?: number;
  readonly onReconnect?: (error: Error) => void;
}
