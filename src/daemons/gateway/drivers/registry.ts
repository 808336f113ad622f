/** The drivers by their names in the configuration. */
import type { Env } from '../../../kit/env/env.ts';
import { OrchdError } from '../../../model/errors.ts';
import type { SeatOrder } from '../../../model/gateway-wire.ts';
import type { Driver } from '../driver.ts';

export interface DriverParts {
  readonly env: Env;
}

export function driverOf({ driver }: SeatOrder, _parts: DriverParts): Driver {
  throw new OrchdError('UNSUPPORTED', `this version has no driver ${driver}`);
}
