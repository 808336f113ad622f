/** What of our own environment any program that we start may see. */

/** Programs need these to be found and to run; everything else may hold secrets. */
const PASSED_ON = ['PATH', 'HOME', 'LANG', 'TMPDIR'];

export function plainEnvironment(): Record<string, string> {
  const plain: Record<string, string> = {};
  for (const name of PASSED_ON) {
    const value = process.env[name];
    if (value !== undefined) plain[name] = value;
  }
  return plain;
}
