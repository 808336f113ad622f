/** What a reconciliation with a backend has found, see runtime/reconciliation.ts. */
export interface Reconciled {
  readonly backend: string;
  readonly at: number;
  readonly counts: Readonly<Record<string, number>>;
  /** Executions that no open attempt knew. */
  readonly unknownRunning: number;
}
