/** Events of prices. */
import type { PriceSpec } from '../../model/price.ts';
import { setPrices } from '../money/prices.ts';
import { type Handlers, needsDiskSpace } from './handler.ts';

export interface MoneyEvent {
  readonly type: 'prices';
  readonly prices: readonly PriceSpec[];
  readonly by: string;
}

export const money = {
  prices: needsDiskSpace((turn, { prices, by }) => {
    const record = setPrices(turn, prices, by);
    turn.queue.pricesChanged();
    return record;
  }),
} satisfies Handlers<MoneyEvent>;
