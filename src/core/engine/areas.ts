/** The handlers of all events, and the types of events and replies. A new area is added by a line in HANDLERS. */
import type { OrchdError } from '../../model/errors.ts';
import { attempts } from './attempts.ts';
import { backends } from './backends.ts';
import { brain } from './brain.ts';
import { consumers } from './consumers.ts';
import { governance } from './governance.ts';
import type { EngineTurn } from './handler.ts';
import { jobs } from './jobs.ts';
import { leases } from './leases.ts';
import { mcp } from './mcp.ts';
import { models } from './models.ts';
import { modules } from './modules.ts';
import { money } from './money.ts';
import { policy } from './policy.ts';
import { pools } from './pools.ts';
import { schedules } from './schedules.ts';
import { sessions } from './sessions.ts';
import { workerPools } from './worker-pools.ts';

const HANDLERS = {
  ...jobs,
  ...attempts,
  ...backends,
  ...consumers,
  ...leases,
  ...models,
  ...money,
  ...sessions,
  ...pools,
  ...workerPools,
  ...schedules,
  ...modules,
  ...governance,
  ...policy,
  ...mcp,
  ...brain,
};

type HandlerTable = typeof HANDLERS;

export type EngineEventType = keyof HandlerTable;

/** Every input of the engine is one of these events. */
export type EngineEvent = Parameters<HandlerTable[EngineEventType]>[1];

/** The reply to an event of this type; a refusal is an OrchdError. */
export type ReplyTo<T extends EngineEventType> = ReturnType<HandlerTable[T]>;

export type Reply = ReplyTo<EngineEventType>;

/** The reply to an event of this type when it is not refused. */
export type ValueOf<T extends EngineEventType> = Exclude<ReplyTo<T>, OrchdError>;

export const handle = (turn: EngineTurn, event: EngineEvent): Reply =>
  (HANDLERS[event.type] as (turn: EngineTurn, event: EngineEvent) => Reply)(turn, event);
