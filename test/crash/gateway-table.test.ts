/**
 * The crash table of the gateway: brain, gateway, both are killed, or the packets between them are dropped, at each step
 * of a job, for each driver. The bills are counted by the provider, in a process of its own. A part of the rows is walked
 * by `npm test`; CRASH_ALL=1 walks them all, CRASH_ONLY='anthropic-batches ack' those whose name contains the words.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { DRIVERS, type DriverName } from '../../src/model/gateway-wire.ts';
import { type Ends, testFolder } from '../flow/server-process.ts';
import { type CrashCase, CrashSite, ProviderProcess, STEPS, type Step, VICTIMS } from './gateway/case.ts';

const CASE_TIMEOUT_MS = 180_000;
/** Every how many rows one is walked by `npm test`; coprime to the numbers of steps, victims, drivers and policies. */
const SAMPLE = 61;

const folder = testFolder({ after } as Ends);
const providers = new Map<string, ProviderProcess>();

before(async () => {
  for (const kind of ['openai', 'anthropic', 'gemini']) {
    const provider = new ProviderProcess(kind, join(folder, `${kind}.jsonl`));
    providers.set(kind, await provider.started());
  }
});
after(() => {
  for (const provider of providers.values()) provider.stop();
});

const providerOf = (driver: DriverName): ProviderProcess =>
  providers.get(driver.split('-')[0] ?? '') as ProviderProcess;

const steps = Object.keys(STEPS) as Step[];

/** Drivers without an id of the call, and those whose answer comes as a whole, do not pass these steps. */
const isPassed = ({ driver, step }: CrashCase): boolean =>
  step !== 'after-upstream-id' || driver === 'openai-responses' || driver === 'anthropic-batches';

const rows: CrashCase[] = DRIVERS.filter((driver) => driver !== 'browser')
  .flatMap((driver) =>
    steps.flatMap((step) =>
      VICTIMS.flatMap((victim) =>
        (['hold', 'retry'] as const).map((policy) => ({ driver, step, victim, policy })),
      ),
    ),
  )
  .filter(isPassed);

const nameOf = ({ driver, step, victim, policy }: CrashCase): string =>
  `${driver} ${step} ${victim} ${policy}`;

function isChosen(row: CrashCase, at: number): boolean {
  const { CRASH_ALL, CRASH_ONLY } = process.env;
  if (CRASH_ONLY !== undefined) return CRASH_ONLY.split(' ').every((word) => nameOf(row).includes(word));
  return CRASH_ALL !== undefined || at % SAMPLE === 0;
}

/** The first step after which a gateway that was started again finds the call, by its tag or by its id. */
const FOUND_FROM: Partial<Record<DriverName, Step>> = {
  'openai-chat': 'after-send',
  'openai-responses': 'after-upstream-id',
  'anthropic-batches': 'after-send',
};

/** The call went on without the gateway, or had not left it, so that its result is found or it certainly did not run. */
function isCertain({ driver, step, victim }: CrashCase): boolean {
  const gatewayDied = victim === 'gateway' || victim === 'both';
  if (!gatewayDied || step === 'intent' || step === 'after-result' || step === 'commit' || step === 'ack')
    return true;
  const foundFrom = FOUND_FROM[driver];
  return foundFrom !== undefined && steps.indexOf(step) >= steps.indexOf(foundFrom);
}

for (const row of rows.filter(isChosen)) {
  test(`[FANO-9] ${nameOf(row)}: no job is lost, and none is bought again by itself`, {
    timeout: CASE_TIMEOUT_MS,
  }, async (t) => {
    const id = nameOf(row).replaceAll(' ', '-');
    const site = new CrashSite(t, join(folder, id), providerOf(row.driver), row, id);
    const { state, wasHeld, bills } = await site.run();
    assert.equal(state, 'succeeded', JSON.stringify(await site.job()));
    const allowed = row.policy === 'hold' || isCertain(row) ? 1 : 1 + (await site.reportedRetries());
    assert.ok(bills <= allowed, `it was billed ${bills} times, ${allowed} times are reported`);
    if (isCertain(row)) assert.deepEqual([wasHeld, site.bills], [false, 1], 'nobody had to decide');
    else assert.ok(site.bills <= allowed + (wasHeld ? 1 : 0), 'one more by order of a person');
    if (row.policy === 'retry') assert.ok(!wasHeld);
  });
}
