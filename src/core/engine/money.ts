/** Events of prices, and of seats that were paused for what they have billed. */
import { OrchdError } from '../../model/errors.ts';
import type { PriceSpec } from '../../model/price.ts';
import { resumeSeat } from '../attempts/bill.ts';
import { setPrices } from '../money/prices.ts';
import { type EngineTurn, type Handlers, needsDiskSpace } from './handler.ts';

export type MoneyEvent =
  | { readonly type: 'prices'; readonly prices: readonly PriceSpec[]; readonly by: string }
  /** An operator lets a paused seat get jobs again. The reply is whether it was paused. */
  | { readonly type: 'resume-seat'; readonly seat: string; readonly by: string };

export const money = {
  prices: needsDiskSpace((turn, { prices, by }) => {
    const record = setPrices(turn, prices, by);
    turn.queue.pricesChanged();
    return record;
  }),
  'resume-seat': needsDiskSpace((turn, { seat, by }) => resume(turn, seat, by)),
} satisfies Handlers<MoneyEvent>;

function resume(turn: EngineTurn, seat: string, by: string): boolean {
  const wasPaused = resumeSeat(turn, seat, by);
  // A seat that is gone may still be paused, for when it comes back.
  if (!wasPaused && !turn.fleet.backends.has(seat))
    throw new OrchdError('NOT_FOUND', `there is no seat "${seat}"`);
  return wasPaused;
}
