import type { Engine } from '../core/engine/engine.ts';
import type { Loop } from './loop.ts';

/** Resolves to the value once the state it was read from is durable. */
export async function whenDurable<T>(
  { engine, loop }: { readonly engine: Engine; readonly loop: Loop },
  value: T | Promise<T>,
): Promise<T> {
  const { seq } = engine.state;
  const [result] = await Promise.all([value, loop.durable(seq)]);
  return result;
}
