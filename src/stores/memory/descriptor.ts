/** The descriptor of the store in memory. */
import type { StoreDescriptor } from '../descriptor.ts';
import { MemoryStore } from './memory.ts';

export const memory: StoreDescriptor = {
  title: 'memory',
  keepsNothing: true,
  open: ({ env }) => new MemoryStore(env.timers),
};
