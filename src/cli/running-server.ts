/** A server that answers, whether it stands alone or is a node of several. */
export interface RunningServer {
  readonly url: string;
  /** What the models are called that are answered from here. */
  readonly models?: readonly string[];
  /** Why it has stopped by itself. */
  readonly failure: Error | undefined;
  stop(): Promise<void>;
}
