/** What became of the proposals of one scan, or of all scans of a module. */
export const OUTCOMES = ['accepted', 'known', 'refused', 'postponed', 'garbage'] as const;
export type ProposalOutcome = (typeof OUTCOMES)[number];

export class ScanCounts implements Record<ProposalOutcome, number> {
  /** New jobs. */
  accepted = 0;
  /** Proposals of work that has a job already. */
  known = 0;
  refused = 0;
  /** Proposals that the brain could not take now. */
  postponed = 0;
  /** Lines that are no JSON object. */
  garbage = 0;
}
