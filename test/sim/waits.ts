/** The jobs of the simulation that work in steps, and wait between them for jobs below them. */
import type { AskedWait, Offer } from '../../src/core/ports/backend.ts';
import type { SeededRandom } from '../fakes/world.ts';

const LARGE = 5000;

/** The wait after which an execution of the job goes on; undefined in the last step, and for jobs without steps. */
export function waitOf(offer: Offer, random: SeededRandom): AskedWait | undefined {
  const { steps = 0, number } = JSON.parse(offer.payloadText) as { steps?: number; number: number };
  const step = offer.waited?.step ?? 0;
  if (step >= steps) return undefined;
  const { id } = offer.ask;
  const children = Array.from({ length: random.int(3) }, (_, n) => ({
    job_id: `${id}.${step}.${n}`,
    type: 'work',
    payload: { number, text: 'z'.repeat(random.chance(0.1) ? LARGE : 10) },
    timeout_ms: 2000,
  }));
  const isTimed = children.length === 0 || random.chance(0.2);
  return {
    ok: 'waits',
    stateText: JSON.stringify({ step, text: 's'.repeat(random.chance(0.3) ? LARGE : 10) }),
    children,
    needs: random.chance(0.3) ? 'any' : 'all',
    ...(isTimed && { forMs: random.between(0, 5000) }),
  };
}
