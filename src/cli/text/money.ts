/** Money for people: millionths of a currency as a decimal number. */

const MILLIONTHS = 1_000_000n;

/** `0.001234 USD`: exact, with two decimals at least. */
export function moneyText(millionths: number, currency: string): string {
  const sign = millionths < 0 ? '-' : '';
  const whole = BigInt(Math.abs(Math.trunc(millionths)));
  const decimals = String(whole % MILLIONTHS)
    .padStart(6, '0')
    .replace(/0{1,4}$/, '');
  return `${sign}${whole / MILLIONTHS}.${decimals} ${currency}`;
}
