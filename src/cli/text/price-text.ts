/** The output of `orchd prices`. */
import type { PricesView, WrittenPrice } from '../../model/http/prices.ts';
import { moneyText } from './money.ts';
import { tableText } from './table.ts';

const HEADINGS = ['MODEL', 'SEAT', 'FROM', 'INPUT', 'CACHED', 'OUTPUT', 'OTHER'];

export const pricesText = ({ currency, prices }: PricesView, width: number | undefined): string =>
  `${tableText(
    HEADINGS,
    prices.map((price) => rowOf(price, currency)),
    { width },
  )}\nTokens: for a million of them, in ${currency}.`;

function rowOf(price: WrittenPrice, currency: string): string[] {
  const amount = (value: number | undefined): string =>
    value === undefined ? '-' : moneyText(value, '').trimEnd();
  const {
    model,
    seat = 'any',
    valid_from: from,
    input,
    cache_read: read,
    cache_write: write,
    output,
  } = price;
  const cached = read === undefined && write === undefined ? '-' : `${amount(read)} / ${amount(write)}`;
  const others = [
    ...(['reasoning', 'image', 'request', 'second'] as const).flatMap((name) =>
      price[name] === undefined ? [] : `${name} ${moneyText(price[name], currency)}`,
    ),
    ...(price.batch_percent === undefined ? [] : [`in batches ${price.batch_percent} %`]),
  ];
  return [model, seat, from ?? '-', amount(input), cached, amount(output), others.join(', ')];
}
