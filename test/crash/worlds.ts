/** The worlds by name, for the process in which one is played. */
import { agentRun } from './agent-world.ts';
import { budget } from './budget-world.ts';
import { consumers } from './consumer-world.ts';
import { wakes } from './wakes-world.ts';
import type { World } from './world.ts';

export const WORLDS = { budget, 'agent-run': agentRun, consumers, wakes } as const satisfies Record<
  string,
  World
>;
export type WorldName = keyof typeof WORLDS;
