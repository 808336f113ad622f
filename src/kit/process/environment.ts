/** The environment variables that orchd passes on to the programs it starts. */

/** The variables that programs need to be found and to run; any other variable may hold a secret. */
const PASSED_ON = ['PATH', 'HOME', 'LANG', 'TMPDIR'];

export function plainEnvironment(): Record<string, string> {
  const plain: Record<string, string> = {};
  for (const name of PASSED_ON) {
    const value = process.env[name];
    if (value !== undefined) plain[name] = value;
  }
  return plain;
}
