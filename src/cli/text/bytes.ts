/** Numbers of bytes as text, rounded for people. */
const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'] as const;

export function bytesText(bytes: number): string {
  let amount = Math.max(0, bytes);
  let unit = 0;
  while (amount >= 1024 && unit < UNITS.length - 1) {
    amount /= 1024;
    unit++;
  }
  const text = unit === 0 || amount >= 100 ? String(Math.round(amount)) : amount.toFixed(1);
  return `${text} ${UNITS[unit]}`;
}
