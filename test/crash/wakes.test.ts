/** Jobs that may go on, and a brain that dies before it has written so. */
import { killEverywhere } from './kill-everywhere.ts';

killEverywhere('wakes', 'a job whose jobs have ended is woken');
