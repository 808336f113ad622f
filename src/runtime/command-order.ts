/** The base of the commands that send an event to the engine and wait until its change is durable. */
import type { EngineEvent, ValueOf } from '../core/engine/areas.ts';
import type { Engine } from '../core/engine/engine.ts';
import { OrchdError } from '../model/errors.ts';
import type { Loop } from './loop.ts';

export class Commands {
  protected readonly loop: Loop;
  protected readonly engine: Engine;

  constructor(loop: Loop, engine: Engine) {
    this.loop = loop;
    this.engine = engine;
  }

  /** Sends an event to the engine and returns the reply; throws if the reply is an error. */
  protected async order<E extends EngineEvent>(event: E): Promise<ValueOf<E['type']>> {
    const reply = await this.loop.askUntilDone(event);
    if (reply instanceof OrchdError) throw reply;
    return reply as ValueOf<E['type']>;
  }
}
