/** An nvidia-smi that pretends a device. */
import { chmodSync, mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';

export const [TOTAL_MIB, OTHERS_MIB] = [10_000, 1000];

/** The folder in which each server that takes memory has a file with its pid and its MiB. */
export const serversOf = (folder: string): string => join(folder, 'servers');

/** What other programs use of the device from now on. The file is replaced at once, since the script may just read it. */
export function setOthers(folder: string, mib: number): void {
  writeFileSync(join(folder, 'others.new'), String(mib));
  renameSync(join(folder, 'others.new'), join(folder, 'others'));
}

/** One device. Returns the environment for its pool manager. */
export function fakeGpu(folder: string, namesProcesses = true): Readonly<Record<string, string>> {
  const [bin, servers] = [join(folder, 'bin'), serversOf(folder)];
  for (const each of [bin, servers]) mkdirSync(each, { recursive: true });
  setOthers(folder, OTHERS_MIB);
  const script = `#!/bin/sh
lines=$(cat '${servers}'/* 2>/dev/null)
case "$*" in
  *compute-apps*) ${namesProcesses ? 'echo "$lines"' : 'echo "2147483647, 5"'} ;;
  *) used=$(echo "$lines" | awk -F, "{ sum += \\$2 } END { print sum + $(cat '${join(folder, 'others')}') }")
     echo "0, NVIDIA Imaginary 9000, ${TOTAL_MIB}, $used, $((${TOTAL_MIB} - used))" ;;
esac
`;
  writeFileSync(join(bin, 'nvidia-smi'), script);
  chmodSync(join(bin, 'nvidia-smi'), 0o755);
  return { PATH: `${bin}${delimiter}${process.env['PATH']}` };
}
