/** Bugs of governance. */
import type { PlantedBug } from './catchers.ts';

export const GOVERNANCE_BUGS: readonly PlantedBug[] = [
  {
    name: 'the gate is asked at admission only',
    file: 'src/core/scheduling/schedule.ts',
    find: '    const denial = whyDenied(view, entry);\n',
    replace: '    const denial = entry.job.attempt < 0 ? whyDenied(view, entry) : undefined;\n',
    catcher: 'governed',
    says: /✖ is refused at the claim if it was admitted before the mode changed/,
  },
  {
    name: 'a call has the rights of its own agent alone',
    file: 'src/core/governance/gate.ts',
    find: '    for (const agent of callers) {\n',
    replace: '    for (const agent of callers.slice(-1)) {\n',
    catcher: 'governed',
    says: /✖ is one of an agent below an agent that has no such right/,
  },
  {
    name: 'the mode is lost at a restart',
    file: 'src/core/engine/brain.ts',
    find: '    openLimits(turn);\n',
    replace: "    turn.put('governance', 'mode', null, 'open');\n    openLimits(turn);\n",
    catcher: 'lockdown',
    says: /✖ .*LOCKDOWN holds over a restart/,
  },
  {
    name: 'a trigger has no duration',
    file: 'src/adapters/governance/triggers.ts',
    find: '      return now - since >= forMs;\n',
    replace: '      return now - since >= 0 * forMs;\n',
    catcher: 'triggers',
    says: /✖ .*a trigger is due when its metric was above its bound for its time/,
  },
];
