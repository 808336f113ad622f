/** Events of modules: what they have handled is remembered. */
import type { HandledRange } from '../../model/module-record.ts';
import type { Handlers } from './handler.ts';

/** Not refused while the disk is full: like outcomes of jobs, it may use the reserve. */
export interface HandledEvent {
  readonly type: 'handled';
  readonly module: string;
  readonly handled: readonly HandledRange[];
  readonly by: string;
}

export const modules = {
  handled: (turn, { module, handled, by }) => {
    turn.put('module', module, { v: 1, handled }, { is: 'set', by });
  },
} satisfies Handlers<HandledEvent>;
