/** The schemas of the reconciliation with executors. */
import { Type } from 'typebox';
import { answerObject, instant, type Shape } from './shape.ts';

const optional = Type.Optional;
const Count = Type.Integer({ minimum: 0 });

/** What was found about an attempt, and what follows. */
export const FINDINGS = {
  running: 'it runs, as this brain knew',
  reattached: 'it runs, and is followed again',
  collected: 'it has ended; its outcome was collected',
  not_run: 'it certainly has not run, and never will; its job goes back to the queue',
  held: 'nobody knows whether it ran; the job is held until somebody decides',
  retried: 'nobody knows whether it ran; by `on_unknown` the job is tried again, which may be paid twice',
  failed: 'nobody knows whether it ran; by `on_unknown` the job has failed',
  killed: 'it ran although no open attempt knows it, and was ended',
} as const satisfies Record<string, string>;
export type ReconcileFinding = keyof typeof FINDINGS;

const ReconciledAttempt = answerObject('ReconciledAttempt', {
  token: Type.String({
    description: 'The token of the attempt: the id of the job and the number of the attempt',
  }),
  tenant: Type.String(),
  found: Type.Enum(Object.keys(FINDINGS) as ReconcileFinding[], {
    description: Object.entries(FINDINGS)
      .map(([name, meaning]) => `\`${name}\`: ${meaning}`)
      .join('; '),
  }),
});
export type ReconciledAttempt = Shape<typeof ReconciledAttempt>;

export const BackendReconciliation = answerObject('BackendReconciliation', {
  backend: Type.String(),
  at: instant('When the backend answered, or was given up'),
  answered: Type.Boolean(),
  problem: optional(Type.String({ description: 'Why it could not be asked' })),
  counts: Type.Record(Type.String(), Count, { description: 'Attempts by what was found' }),
  unknown_running: Type.Integer({
    minimum: 0,
    description: 'Executions that no open attempt knows; they are ended if they still run after a grace time',
  }),
  attempts: Type.Array(ReconciledAttempt, {
    description:
      'The attempts that were not simply found running, up to 1,000; in the report of the start also those that became unknown later',
  }),
});
export type BackendReconciliation = Shape<typeof BackendReconciliation>;

export const ReconcileReport = answerObject('ReconcileReport', {
  begun_at: instant('When it began'),
  trigger: Type.Enum(['start', 'operator']),
  by: optional(Type.String({ description: 'Who ordered it' })),
  backends: Type.Array(BackendReconciliation),
  unanswered: Type.Integer({
    minimum: 0,
    description: 'Open attempts of an earlier start whose backend has not answered yet',
  }),
});
export type ReconcileReport = Shape<typeof ReconcileReport>;

export const ReconcileReports = answerObject('ReconcileReports', {
  reports: Type.Array(ReconcileReport, {
    description: 'That of the start, and the last ones that were ordered',
  }),
});
