/** The engine inside of an orchestrator, for tests that look at what nobody else may see. */
import type { Engine } from '../../src/core/engine/engine.ts';
import { Orchestrator } from '../../src/runtime/orchestrator.ts';

export const engineOf = (orchestrator: Orchestrator): Engine => Orchestrator.engineOf(orchestrator);
