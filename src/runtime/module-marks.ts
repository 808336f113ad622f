/** Reads and writes which ends of jobs a module has handled. What that means is for adapters/modules. */
import type { HandledRange } from '../model/module-record.ts';
import { Commands } from './command-order.ts';
import { whenDurable } from './when-durable.ts';

export class ModuleMarks extends Commands {
  read(module: string): Promise<readonly HandledRange[]> {
    const { tables } = this.engine.state;
    return whenDurable({ engine: this.engine, loop: this.loop }, tables.module.get(module)?.handled ?? []);
  }

  /** Replaces what was written before; resolves once it is durable. */
  async write(module: string, handled: readonly HandledRange[], by: string): Promise<void> {
    await this.order({ type: 'handled', module, handled, by });
  }
}
