/** The section `gates`: how much may wait, and how full GPUs may be (docs/gates.md). A mark of 0 turns a gate off. */
import { type Static, Type } from 'typebox';
import { ON_DEPTH } from '../model/policy.ts';
import { section } from './section.ts';

const MAX_JOBS = 10_000_000;

const jobs = (value: number) => Type.Integer({ default: value, minimum: 0, maximum: MAX_JOBS });
const percent = (value: number) => Type.Number({ default: value, minimum: 0, maximum: 100 });

export const GatesSchema = section({
  queue_depth: section({
    close_above: jobs(0),
    open_below: jobs(0),
    on_depth: Type.Enum([...ON_DEPTH], { default: 'scale_up' }),
  }),
  gpu_memory: section({
    close_above: percent(0),
    open_below: percent(0),
  }),
  agent_waiting: section({
    high: jobs(0),
    low: jobs(0),
  }),
});
export type WrittenGates = Static<typeof GatesSchema>;

export const gatesOf = ({ queue_depth, gpu_memory, agent_waiting }: WrittenGates) => ({
  queueDepth: {
    closeAbove: queue_depth.close_above,
    openBelow: queue_depth.open_below,
    onDepth: queue_depth.on_depth,
  },
  gpuMemory: { closeAbove: gpu_memory.close_above, openBelow: gpu_memory.open_below },
  agentWaiting: { high: agent_waiting.high, low: agent_waiting.low },
});
