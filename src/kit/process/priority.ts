/** Lowers the priority of a process that leads a session of its own, and of all that it starts from then on. */
import { writeFileSync } from 'node:fs';
import { setPriority } from 'node:os';

/** `niceness` is that of `nice`: up to 19, the higher the later. */
export function lowerPriority(pid: number, niceness: number): void {
  const ways = [
    () => setPriority(pid, niceness),
    // Where Linux shares the cores among sessions first, that of the session counts.
    () => writeFileSync(`/proc/${pid}/autogroup`, String(niceness)),
  ];
  for (const lower of ways)
    try {
      lower();
    } catch {
      // It has ended already, or this kernel has no such groups.
    }
}
