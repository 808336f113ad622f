/** Bugs that are planted one at a time, each with the suite that must notice it: all of them, by subject. */
import { AGENTS_BUGS } from './planted/agents.ts';
import { ATTEMPTS_BUGS } from './planted/attempts.ts';
import type { PlantedBug } from './planted/catchers.ts';
import { CONSUMERS_BUGS } from './planted/consumers.ts';
import { GATEWAY_BUGS } from './planted/gateway.ts';
import { GOVERNANCE_BUGS } from './planted/governance.ts';
import { MODULES_BUGS } from './planted/modules.ts';
import { MONEY_BUGS } from './planted/money.ts';
import { RECOVERY_BUGS } from './planted/recovery.ts';
import { SPOOL_BUGS } from './planted/spool.ts';
import { STICKY_BUGS } from './planted/sticky.ts';
import { SYNCS_BUGS } from './planted/syncs.ts';
import { WAITS_BUGS } from './planted/waits.ts';

export const PLANTED: readonly PlantedBug[] = [
  ...SYNCS_BUGS,
  ...RECOVERY_BUGS,
  ...ATTEMPTS_BUGS,
  ...WAITS_BUGS,
  ...GATEWAY_BUGS,
  ...MONEY_BUGS,
  ...AGENTS_BUGS,
  ...SPOOL_BUGS,
  ...STICKY_BUGS,
  ...MODULES_BUGS,
  ...GOVERNANCE_BUGS,
  ...CONSUMERS_BUGS,
];
