/** Schemas of prices, as they are written in the configuration and in HTTP requests and answers. */
import { type Static, Type } from 'typebox';
import { answerObject, type Shape } from './shape.ts';

const optional = Type.Optional;
const rate = (description: string) => optional(Type.Integer({ minimum: 0, maximum: 1e15, description }));
const tokens = (description: string) => optional(Type.Integer({ minimum: 0, maximum: 1e9, description }));

export const MAX_PRICES = 10_000;

export const WrittenPrice = Type.Object(
  {
    model: Type.String({
      minLength: 1,
      maxLength: 400,
      description: 'A model, by the name that its seat has for it or its id in the catalog; * for any other',
    }),
    seat: optional(
      Type.String({
        minLength: 1,
        maxLength: 400,
        description: 'The name of a backend; without one the price holds on every backend without its own',
      }),
    ),
    valid_from: optional(
      Type.String({
        minLength: 1,
        maxLength: 64,
        description:
          'When the price begins: RFC 3339 with an offset, or a date, which begins at 00:00 UTC; by default it always held',
      }),
    ),
    input: rate('For a million input tokens that were neither read from a cache nor written to one'),
    cache_read: rate('For a million input tokens that were read from a cache; by default like input'),
    cache_write: rate('For a million input tokens that were written to a cache; by default like input'),
    output: rate('For a million output tokens without those of reasoning'),
    reasoning: rate('For a million output tokens of reasoning; by default like output'),
    image: rate('For each image of the input, beside its tokens'),
    request: rate('For each execution'),
    second: rate('For each second that an execution holds its slot'),
    batch_percent: optional(
      Type.Integer({
        minimum: 0,
        maximum: 100,
        description:
          'The share of the price on seats whose provider runs requests in batches; 100 by default',
      }),
    ),
    message_overhead: tokens('The most tokens that the provider adds to each message; 16 by default'),
    request_overhead: tokens('The most tokens that the provider adds to each request; 1024 by default'),
    image_tokens: tokens('The most tokens of one image; without it, images are refused on hard budgets'),
  },
  { title: 'Price', additionalProperties: false },
);
export type WrittenPrice = Static<typeof WrittenPrice>;

export const SetPrices = Type.Object(
  { prices: Type.Array(WrittenPrice, { maxItems: MAX_PRICES }) },
  { additionalProperties: false },
);

export const PricesView = answerObject('Prices', {
  currency: Type.String({ description: 'The currency; every price and cost is in millionths of it' }),
  prices: Type.Array(WrittenPrice),
});
export type PricesView = Shape<typeof PricesView>;
