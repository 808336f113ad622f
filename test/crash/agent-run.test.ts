/**
 * A run with two tools at once, one of which must not be called twice: the tools' own ledger shows what was done, whatever
 * the brain remembers.
 */
import { killEverywhere } from './kill-everywhere.ts';

killEverywhere(
  'agent-run',
  'a run ends with the same answer, and what a tool has done once is not done again',
);
