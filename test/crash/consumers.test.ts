/** The brain dies while consumers claim jobs, work and report. */
import { killEverywhere } from './kill-everywhere.ts';

killEverywhere('consumers', 'no attempt is begun twice, and what a consumer has ended is not done again');
