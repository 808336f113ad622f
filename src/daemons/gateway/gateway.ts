/** The gateway daemon: the parts of its interface that `orchd gateway` uses. */
import type { Env } from '../../kit/env/env.ts';
import type { Logger } from '../../kit/logger.ts';
import type { Secret } from '../../kit/secret.ts';
import { Service } from '../../kit/service.ts';
import { OrchdError } from '../../model/errors.ts';
import type { SeatOrder, SeatsOrder } from '../../model/gateway-wire.ts';
import type { Driver } from './driver.ts';

export interface GatewayOptions {
  readonly env: Env;
  readonly logger: Logger;
  readonly folder: string;
  readonly host: string;
  readonly port: number;
  readonly token?: Secret | undefined;
  /** Host names under which callers reach it, beside those of this machine and the one on which it listens. */
  readonly allowedHosts?: readonly string[];
  readonly launch?: string | undefined;
  readonly drivers: (order: SeatOrder) => Driver;
}

export class Gateway extends Service {
  readonly options: GatewayOptions;

  constructor(options: GatewayOptions) {
    super();
    this.options = options;
  }

  get url(): string {
    return '';
  }

  /** Settles when the process can end. */
  get ended(): Promise<void> {
    return Promise.resolve();
  }

  /** Settles when the disk has failed. */
  get failed(): Promise<OrchdError> {
    return new Promise(() => undefined);
  }

  follow(_order: SeatsOrder): void {}

  async drain(): Promise<void> {}

  protected override async onStart(): Promise<void> {
    throw new OrchdError('UNSUPPORTED', 'this version has no gateway');
  }

  protected override async onStop(): Promise<void> {}
}
